package run

import (
	"context"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/audit"
	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/live"
	"github.com/floodweir/weir/cmd/weir/internal/nodes"
	"github.com/floodweir/weir/cmd/weir/internal/programs"
	"github.com/floodweir/weir/cmd/weir/internal/rls"
	"github.com/floodweir/weir/cmd/weir/internal/warning"
	"github.com/floodweir/weir/cmd/weir/internal/watch"
)

// Input is the input of a program.
type Input struct {
	// Config is the configuration to start with.
	Config *config.Config

	// Reload reads the configuration again; a reload keeps Config if nil.
	Reload func() (*config.Config, error)

	// Hangup requests a reload; never if nil.
	Hangup <-chan os.Signal

	// Getenv reads the environment variables of OpenTelemetry; all are empty if nil.
	Getenv func(string) string

	// Version is the version of the program.
	Version string
}

// Serve runs the program until ctx ends and then stops it in order. It writes the text of
// the demo to stdout and the log to stderr.
func Serve(ctx context.Context, in Input, stdout, stderr io.Writer) error {
	log := newLog(in.Config.Log, stderr)
	p, err := Start(ctx, in, log)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil // stopped while it waited for the store
	case err != nil:
		return err
	}
	defer p.Stop()
	if in.Config.Demo() {
		printDemo(stdout, p)
	}
	select {
	case <-ctx.Done():
		log.Info("stopping", "drain", in.Config.Drain.String())
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

// reserveSize is the size of a part of the heap that is never used, and therefore not resident. The
// garbage collector runs when the heap has doubled: with the reserve, after at least 32 MiB of
// allocations. The live heap of a server is a few MiB, which doubles many times per second under load.
// A higher GOGC would also multiply a large heap.
const reserveSize = 32 << 20

// A Program is the running program.
type Program struct {
	reserve []byte         // reserveSize bytes, never used
	config  *config.Config // of the start
	version string
	log     *slog.Logger

	observers *observers
	stores    *stores
	ready     *readiness
	reloader  *reloader
	watcher   *watch.Watcher // nil: the files are not watched
	audit     *audit.Log

	gateway, api, admin, grpc, resp *listener // nil: off
	upstream                        *listener // of the demo; else nil
	rls                             *rls.GRPCServer

	exchange *nodes.Exchange
	live     *live.Live

	failed chan error              // receives the error of an interface that ended before Stop
	stops  []func(context.Context) // in the order of starts
	once   sync.Once
}

// Start builds the parts and starts them in order. If one fails, it stops those before it.
func Start(ctx context.Context, in Input, log *slog.Logger) (*Program, error) {
	if in.Getenv == nil {
		in.Getenv = func(string) string { return "" }
	}
	p := newProgram(in, log)
	var err error
	if p.watcher, err = newWatcher(in.Config, log); err != nil {
		return nil, err
	}
	p.onStop(func(context.Context) { p.watcher.Close() })
	if p.observers, err = newObservers(ctx, in.Config, in.Version, in.Getenv, log); err == nil {
		p.onStop(p.observers.close)
		p.stores, err = openStores(ctx, in.Config, p.observers.metrics, log)
	}
	if err == nil {
		p.onStop(func(context.Context) { p.stores.close() })
		err = p.start(ctx, in)
	}
	if err != nil {
		p.stop(context.Background())
		return nil, err
	}
	return p, nil
}

func newProgram(in Input, log *slog.Logger) *Program {
	return &Program{reserve: make([]byte, reserveSize), config: in.Config, version: in.Version, log: log, failed: make(chan error, 8)}
}

// start starts everything that needs the observers and the stores.
func (p *Program) start(ctx context.Context, in Input) error {
	p.ready = &readiness{store: p.stores.undivided(), storeName: p.stores.name, problem: p.stores.problem, degraded: p.config.StartDegraded}
	p.reloader = &reloader{
		config: p.config, reread: in.Reload, log: p.log, observers: p.observers, stores: p.stores, ready: p.ready,
		texts: programs.NewTexts(), adjusting: programs.NewAdjustments(),
	}
	p.ready.current = p.reloader.current.Load
	if r := p.config.RateLimit; r != nil {
		p.ready.needsLimits = r.NeedsLimits
		if r.NeedsStore {
			p.ready.available = p.stores.available
		}
		for _, note := range r.Notes {
			p.log.Warn(note)
		}
	}
	p.observers.warnings = warning.New(warning.Config{
		Store: p.stores.undivided(), Log: p.log, Count: p.observers.metrics.Webhook, Version: p.version,
	})
	p.onStop(p.observers.warnings.Close)
	if err := p.openOperations(ctx); err != nil {
		return err
	}
	p.reloader.loadPublished(ctx)
	if err := p.startInterfaces(ctx); err != nil {
		return err
	}
	p.onStop(func(context.Context) { p.reloader.stop() })
	p.reloader.start(ctx, p.watcher, in.Hangup)
	return nil
}

// onStop adds a function to stop. Functions run in reverse order.
func (p *Program) onStop(f func(context.Context)) { p.stops = append(p.stops, f) }

// Stop makes /readyz fail, waits for the drain delay, drains the interfaces and stops the
// other parts. Further calls do nothing.
func (p *Program) Stop() {
	p.once.Do(func() {
		p.ready.draining.Store(true)
		p.reloader.texts.Close()
		p.reloader.adjusting.Close()
		if p.rls != nil {
			p.rls.SetServing(false)
		}
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

// Check reports why a program with the configuration c could not start. It opens no
// listener and no connection.
func Check(c *config.Config) error {
	memory := *c
	memory.Store, memory.Regions = "memory", nil
	log, ctx := slog.New(slog.DiscardHandler), context.Background()
	o, err := newObservers(ctx, &memory, "", func(string) string { return "" }, log)
	if err != nil {
		return err
	}
	defer o.close(ctx)
	s, err := openStores(ctx, &memory, o.metrics, log)
	if err != nil {
		return err
	}
	defer s.close()
	r := &reloader{config: c, log: log, observers: o, stores: s, ready: &readiness{}, texts: programs.NewTexts()}
	_, err = r.build(c, nil)
	return err
}
