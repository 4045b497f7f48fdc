package run

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/decisionlog"
	"github.com/floodweir/weir/cmd/weir/internal/metrics"
	"github.com/floodweir/weir/cmd/weir/internal/rls"
	"github.com/floodweir/weir/cmd/weir/internal/telemetry"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/policy"
)

// Input is what a program is given.
type Input struct {
	// Config is what to begin with.
	Config *config.Config

	// Reload reads the configuration again; it is what it was if nil.
	Reload func() (*config.Config, error)

	// Hangup receives when the configuration is to be read again; never if nil.
	Hangup <-chan os.Signal

	// Getenv reads the environment, for what OpenTelemetry finds there; nothing is set
	// if nil.
	Getenv func(string) string

	// Version is that of the program.
	Version string
}

// Serve runs the program until ctx is done and then stops it in order. What a
// person should see goes to stdout, the log to stderr.
func Serve(ctx context.Context, in Input, stdout, stderr io.Writer) error {
	log := newLog(in.Config.Log, stderr)
	p, err := Start(ctx, in, log)
	if err != nil {
		return err
	}
	defer p.Stop()
	if in.Config.Demo() {
		welcome(stdout, p)
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

// A Program is the running program.
type Program struct {
	in     Input
	config *config.Config // what it began with
	log    *slog.Logger

	metrics   *metrics.Metrics
	telemetry *telemetry.Telemetry
	decisions *decisionlog.Log

	raw   weir.Store // the store as it is
	late  *late      // the same if it is a Redis; else nil
	store weir.Store // with a deadline, and measured

	bounded *failover.Store // the same if it is a Redis; else nil

	local weir.Store // this process's share of limits, for when store is away
	ready *readiness

	current   atomic.Pointer[generation]
	published atomic.Pointer[version] // nil: none
	reloading sync.Mutex

	gateway, api, admin *door           // nil: shut
	upstream            *door           // of the demonstration; else nil
	rls                 *rls.Server     // nil without a configuration
	grpc                *rls.GRPCServer // nil: shut
	grpcAt, respAt      net.Addr        // nil: shut

	failed     chan error              // gets why a door ended by itself
	stops      []func(context.Context) // in the order of starts
	drains     []func(context.Context) // of the doors of clients
	background sync.WaitGroup
	once       sync.Once
}

// Start builds the parts and starts them in order. If one fails, those before it
// are stopped.
func Start(ctx context.Context, in Input, log *slog.Logger) (*Program, error) {
	if in.Getenv == nil {
		in.Getenv = func(string) string { return "" }
	}
	p := &Program{in: in, config: in.Config, log: log, failed: make(chan error, 8)}
	for _, start := range []func(context.Context) error{
		p.startMeters, p.startStore, p.startPublished, p.startDoors, p.startReload,
	} {
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
		if p.grpc != nil {
			p.grpc.SetServing(false)
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

// drain ends the doors of clients side by side: what one of them has to wait for, such as
// a WebSocket, takes no time from the requests of another.
func (p *Program) drain(ctx context.Context) {
	var all sync.WaitGroup
	for _, drain := range p.drains {
		all.Go(func() { drain(ctx) })
	}
	all.Wait()
}

// open starts a door and remembers in ends to stop it.
func (p *Program) open(d *door, ends *[]func(context.Context)) error {
	d.log = p.log
	if err := d.start(); err != nil {
		return err
	}
	*ends = append(*ends, d.drain)
	go func() {
		if err, ok := <-d.failed; ok {
			p.failed <- err
		}
	}()
	return nil
}

// without reports whether every policy in force lets requests through, or decides them
// by a share, when the store is away. To take such a node out of service would help
// nobody: the others have the same store.
func (p *Program) without() bool {
	all := p.current.Load().policies.Policies()
	for _, one := range all {
		if c := one.Config(); c.Mode == policy.Enforce && c.OnStoreError == policy.Closed {
			return false
		}
	}
	return len(all) > 0
}

// inForce says which policies are in force, in a few words.
func (p *Program) inForce() string {
	g := p.current.Load()
	return fmt.Sprintf("%d from %s", len(g.policies.Policies()), g.source)
}
