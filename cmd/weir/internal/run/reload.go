package run

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/floodweir/weir/cmd/weir/internal/adjustment"
	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/metrics"
	"github.com/floodweir/weir/cmd/weir/internal/programs"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
	"github.com/floodweir/weir/cmd/weir/internal/rlqs"
	"github.com/floodweir/weir/cmd/weir/internal/rls"
	"github.com/floodweir/weir/cmd/weir/internal/storeconn"
	"github.com/floodweir/weir/cmd/weir/internal/watch"
	"github.com/floodweir/weir/protect"
	"github.com/floodweir/weir/weirfile"
)

// A reloader builds generations and puts them into force: the first one at the start, and
// another one when the files or the published policies change.
type reloader struct {
	config    *config.Config // of the start
	reread    func() (*config.Config, error)
	log       *slog.Logger
	observers *observers
	stores    *stores
	ready     *readiness
	rls       *rls.Server  // nil without a configuration
	quota     *rlqs.Server // nil without domains
	upstream  *listener    // of the demo; else nil
	secrets   []*config.Secret

	adjustments *adjustment.Store // nil: none

	received *ratelimit.Config // from a control plane; nil: none. Guarded by mu

	current   atomic.Pointer[generation]
	published atomic.Pointer[version] // nil: none
	texts     *programs.Texts         // of published
	inlined   atomic.Pointer[inlined] // the text of current
	adjusting *programs.Texts         // of adjustments
	mu        sync.Mutex              // held while a generation is built and put into force

	cancel     context.CancelFunc
	background sync.WaitGroup
}

// newWatcher watches the files that a reload reads, or returns nil if there are none or c does not
// want it. Call it before the files are used: what changes afterwards is reported.
func newWatcher(c *config.Config, log *slog.Logger) (*watch.Watcher, error) {
	paths := watchedFiles(c)
	if !c.Watch || len(paths) == 0 {
		return nil, nil
	}
	return watch.New(watch.Config{Paths: paths, Includes: func() []string { return weirfile.Includes(c.File) }, Log: log})
}

// start reloads on a signal, when the files change, and when policies are published.
func (r *reloader) start(ctx context.Context, files *watch.Watcher, hangup <-chan os.Signal) {
	ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	r.background.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangup:
				files.Forget() // this reload reads what changed until now
				r.reload("SIGHUP")
			case <-files.Changed():
				r.reload("files changed")
			}
		}
	})
	if r.config.Published {
		r.background.Go(func() { r.follow(ctx) })
	}
	r.background.Go(func() { r.adjustments.Run(ctx) })
}

// stop ends the background work.
func (r *reloader) stop() {
	if r.cancel == nil {
		return
	}
	r.cancel()
	r.background.Wait()
}

// watchedFiles returns the files that a reload reads.
func watchedFiles(c *config.Config) (paths []string) {
	names := storeconn.Files(c.Store)
	if c.Regions != nil {
		names = append(names, storeconn.Files(c.Regions.Global)...)
	}
	names = append(names, c.File, c.GRPC.Config, c.Admin.TokenFile, c.HTTP.TokenFile, c.RESP.PasswordFile)
	for _, path := range names {
		if path == "" {
			continue
		}
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
		paths = append(paths, path)
	}
	return paths
}

// reload reads the configuration and puts it into force. If it is invalid, the current
// generation stays, and the log, /readyz and the metrics report the error.
func (r *reloader) reload(cause string) {
	r.stores.reload() // also if the configuration is refused
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.secrets { // also if the configuration is refused
		s.Reload(r.log)
	}
	g, err := r.read()
	r.replace(fromFile, cause, g, err)
}

// read builds a generation from the files. It requires mu.
func (r *reloader) read() (*generation, error) {
	c := r.config
	if r.reread != nil {
		var err error
		if c, err = r.reread(); err != nil {
			return nil, err
		}
		if g := r.current.Load(); g.gateway != nil && len(routes(c, r.upstream)) == 0 {
			return nil, fmt.Errorf("%s: gateway.routes: got none, want at least one while the gateway listens", c.File)
		}
		for _, name := range unchangeable(r.config, c) {
			r.log.Warn("setting changed: restart the program to apply it", "setting", name)
		}
	}
	v := r.published.Load()
	if !r.config.Published && c.Text != r.current.Load().config.Text {
		v = nil // a changed file replaces what was applied in this process
	}
	g, err := r.build(c, v)
	if err == nil {
		r.published.Store(v)
	}
	return g, err
}

// replace puts g into force, or reports err. It requires mu.
func (r *reloader) replace(from origin, cause string, g *generation, err error) {
	r.ready.reloaded(from, err)
	if err != nil {
		r.observers.metrics.Reloaded("", nil, err)
		for line := range strings.Lines(err.Error()) {
			r.log.Error("configuration not reloaded: the old one stays in force", "cause", cause, "error", strings.TrimSpace(line))
		}
		return
	}
	r.activate(g)
	r.log.Info("configuration reloaded", "cause", cause, "policies", len(g.policies.Policies()), "from", g.source)
}

// activate puts g into force for every request that begins from now on.
func (r *reloader) activate(g *generation) {
	old := r.current.Swap(g)
	r.stores.divide(g, r.log)
	r.observers.metrics.System(g.protections.System())
	var upstreams []metrics.Upstream
	g.protections.Upstreams(func(name, route string, all []protect.Protection) {
		upstreams = append(upstreams, metrics.Upstream{Name: name, Route: route, Protections: all})
	})
	r.observers.metrics.Upstreams(upstreams)
	if old != nil {
		for name, m := range old.middlewares {
			m.Replace(g.middlewares[name]) // moves waiting requests to the new limits
		}
	}
	if r.rls != nil && (old == nil || !g.limits.Equal(old.limits)) {
		r.rls.Use(g.limits)
		if r.quota != nil {
			if err := r.quota.Use(g.limits); err != nil { // rateLimits has accepted them
				r.log.Error("limits of the quota service not replaced", "error", err)
			}
		}
		r.observers.resetDescriptors(g.limits)
	}
	r.observers.metrics.Reloaded(g.source, g.policies, nil)
	for _, version := range g.priceVersions() {
		if old == nil || !slices.Contains(old.priceVersions(), version) {
			r.log.Info("prices in force", "version", version, "from", g.source)
		}
	}
	if old != nil && old.gateway != nil {
		old.gateway.Close() // connections in use end with their request
	}
}

// unchangeable returns the settings that differ between two configurations and need a
// restart.
func unchangeable(a, b *config.Config) (names []string) {
	for _, s := range []struct {
		name string
		same bool
	}{
		{"store", a.Store == b.Store},
		{"region", a.Region == b.Region},
		{"regions", reflect.DeepEqual(a.Regions, b.Regions)},
		{"max-connections", a.MaxConnections == b.MaxConnections},
		{"deadline", a.Deadline == b.Deadline},
		{"nodes", a.Nodes == b.Nodes},
		{"start-degraded", a.StartDegraded == b.StartDegraded},
		{"listen-gateway", a.Gateway.Listen == b.Gateway.Listen},
		{"listen-http", a.HTTP.Listen == b.HTTP.Listen},
		{"http-serve", a.HTTP.AuthOnly == b.HTTP.AuthOnly},
		{"http-hosts", slices.Equal(a.HTTP.Hosts, b.HTTP.Hosts)},
		{"listen-grpc", a.GRPC.Listen == b.GRPC.Listen},
		{"listen-resp", a.RESP.Listen == b.RESP.Listen},
		{"listen-admin", a.Admin.Listen == b.Admin.Listen},
		{"grpc-config", a.GRPC.Config == b.GRPC.Config},
		{"grpc.on_store_error", a.GRPC.OnStoreError == b.GRPC.OnStoreError},
		{"grpc.response_headers", a.GRPC.ResponseHeaders == b.GRPC.ResponseHeaders},
		{"grpc.dynamic_metadata", a.GRPC.DynamicMetadata == b.GRPC.DynamicMetadata},
		{"grpc.shadow_mode", a.GRPC.Shadow == b.GRPC.Shadow},
		{"grpc.quota_mode", a.GRPC.Quota == b.GRPC.Quota},
		{"grpc.quota_service", reflect.DeepEqual(a.GRPC.QuotaService, b.GRPC.QuotaService)},
	} {
		if !s.same {
			names = append(names, s.name)
		}
	}
	if len(a.Gateway.Routes) == 0 && len(b.Gateway.Routes) > 0 {
		names = append(names, "gateway.routes, the first route")
	}
	return names
}
