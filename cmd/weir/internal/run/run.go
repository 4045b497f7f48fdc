package run

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/config"
)

// Serve runs the program until ctx is done and then stops it in order. What a
// person should see goes to stdout, the log to stderr.
func Serve(ctx context.Context, c *config.Config, stdout, stderr io.Writer) error {
	log := newLog(c.Log, stderr)
	p, err := Start(ctx, c, log)
	if err != nil {
		return err
	}
	defer p.Stop()
	if c.Demo() {
		welcome(stdout, p)
	}
	select {
	case <-ctx.Done():
		log.Info("stopping", "drain", c.Drain.String())
		return nil
	case err := <-p.failed:
		return err
	}
}

func newLog(c config.Log, w io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: c.Level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// A Program is the running program.
type Program struct {
	config *config.Config
	log    *slog.Logger
	store  weir.Store
	ready  *readiness
	failed chan error // gets why a door ended by itself

	gateway, api *door // nil: shut
	upstream     *door // of the demonstration; else nil

	stops []func(context.Context) // in the order of starts
	once  sync.Once
}

// Start builds the parts and starts them in order. If one fails, those before it
// are stopped.
func Start(ctx context.Context, c *config.Config, log *slog.Logger) (*Program, error) {
	p := &Program{config: c, log: log, failed: make(chan error, 3)}
	for _, start := range []func(context.Context) error{p.startStore, p.startUpstream, p.startAPI, p.startGateway} {
		if err := start(ctx); err != nil {
			p.stop(context.Background())
			return nil, err
		}
	}
	return p, nil
}

// Stop lets /readyz fail, waits as long as the configuration says, then drains
// the doors and stops the other parts. Stopping twice changes nothing.
func (p *Program) Stop() {
	p.once.Do(func() {
		p.ready.draining.Store(true)
		if p.config.DrainDelay > 0 {
			<-time.After(p.config.DrainDelay)
		}
		ctx, cancel := context.WithTimeout(context.Background(), p.config.Drain)
		defer cancel()
		p.stop(ctx)
		p.log.Info("stopped")
	})
}

func (p *Program) stop(ctx context.Context) {
	for len(p.stops) > 0 {
		last := len(p.stops) - 1
		p.stops[last](ctx)
		p.stops = p.stops[:last]
	}
}

// open starts a door and remembers to stop it.
func (p *Program) open(d *door) error {
	d.log = p.log
	if err := d.start(); err != nil {
		return err
	}
	p.stops = append(p.stops, d.drain)
	go func() {
		if err, ok := <-d.failed; ok {
			p.failed <- err
		}
	}()
	return nil
}

func (p *Program) startStore(ctx context.Context) error {
	name := config.Redacted(p.config.Store)
	if p.config.Store == "memory" {
		store, stop, err := openMemory(p.config.Snapshot, p.log)
		if err != nil {
			return err
		}
		p.store = store
		p.stops = append(p.stops, func(context.Context) { stop() })
	} else {
		store, err := openLate(ctx, p.config.Store, name, p.log)
		if err != nil {
			return err
		}
		p.store = store
		p.stops = append(p.stops, func(context.Context) { store.close() })
	}
	source := "the demonstration"
	if !p.config.Demo() {
		source = p.config.File
	}
	p.ready = &readiness{
		store:    p.store,
		name:     name,
		policies: fmt.Sprintf("%d from %s", len(p.config.Policies.Policies()), source),
	}
	return nil
}
