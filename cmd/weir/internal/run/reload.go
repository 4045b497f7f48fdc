package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/published"
	"github.com/floodweir/weir/cmd/weir/internal/watch"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/weirfile"
)

// A version is policies that were published.
type version struct {
	number   int64
	policies *policy.Set
}

// startReload reads the configuration again when a signal says so, when its files
// change, and when other policies are published.
func (p *Program) startReload(ctx context.Context) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.stops = append(p.stops, func(context.Context) {
		cancel()
		p.background.Wait()
	})
	var changed <-chan struct{}
	if paths := p.watched(); p.config.Watch && len(paths) > 0 {
		w, err := watch.New(watch.Config{Paths: paths, Log: p.log})
		if err != nil {
			return err
		}
		changed = w.Changed()
		p.stops = append(p.stops, func(context.Context) { w.Close() })
	}
	p.background.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-p.in.Hangup:
				p.reload("SIGHUP")
			case <-changed:
				p.reload("the files changed")
			}
		}
	})
	if p.config.Published {
		p.background.Go(func() { p.follow(ctx) })
	}
	return nil
}

// watched are the files that a reload reads.
func (p *Program) watched() (paths []string) {
	for _, path := range []string{p.config.File, p.config.GRPC.Config} {
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

// reload reads the configuration and puts it into force. If it is not good, all stays
// as it is, and the log, /readyz and the metrics say so.
func (p *Program) reload(why string) {
	p.reloading.Lock()
	defer p.reloading.Unlock()
	g, err := p.reread()
	p.put(ofFiles, why, g, err)
}

// put puts g into force, unless err says why there is none.
func (p *Program) put(from origin, why string, g *generation, err error) {
	if err != nil {
		p.refused(from, why, err)
		return
	}
	p.adopt(g)
	p.ready.reloaded(from, nil)
	p.log.Info("configuration reloaded", "because", why, "policies", len(g.policies.Policies()), "from", g.source)
}

// refused tells of a reload that changed nothing.
func (p *Program) refused(from origin, why string, err error) {
	p.ready.reloaded(from, err)
	p.metrics.Reloaded("", nil, err)
	for line := range strings.Lines(err.Error()) {
		p.log.Error("the configuration was not reloaded: the one before stays in force", "because", why, "error", strings.TrimSpace(line))
	}
}

func (p *Program) reread() (*generation, error) {
	v := p.published.Load()
	if p.in.Reload == nil {
		return p.build(p.config, v)
	}
	c, err := p.in.Reload()
	if err != nil {
		return nil, err
	}
	if len(p.routes(c)) == 0 && p.gateway != nil {
		return nil, fmt.Errorf("%s: gateway.routes: want at least one while the gateway is open", c.File)
	}
	for _, name := range fixed(p.config, c) {
		p.log.Warn("a change needs a restart to take effect", "setting", name)
	}
	return p.build(c, v)
}

// fixed are the settings that differ between two configurations and cannot change
// while the program runs.
func fixed(a, b *config.Config) (names []string) {
	for _, s := range []struct {
		name string
		same bool
	}{
		{"store", a.Store == b.Store},
		{"deadline", a.Deadline == b.Deadline},
		{"nodes", a.Nodes == b.Nodes},
		{"listen-gateway", a.Gateway.Listen == b.Gateway.Listen},
		{"listen-http", a.HTTP.Listen == b.HTTP.Listen},
		{"listen-grpc", a.GRPC.Listen == b.GRPC.Listen},
		{"listen-resp", a.RESP.Listen == b.RESP.Listen},
		{"listen-admin", a.Admin.Listen == b.Admin.Listen},
		{"grpc-config", a.GRPC.Config == b.GRPC.Config},
		{"grpc.on_store_error", a.GRPC.OnStoreError == b.GRPC.OnStoreError},
		{"grpc.response_headers", a.GRPC.ResponseHeaders == b.GRPC.ResponseHeaders},
		{"grpc.dynamic_metadata", a.GRPC.DynamicMetadata == b.GRPC.DynamicMetadata},
		{"grpc.shadow_mode", a.GRPC.Shadow == b.GRPC.Shadow},
		{"grpc.quota_mode", a.GRPC.Quota == b.GRPC.Quota},
	} {
		if !s.same {
			names = append(names, s.name)
		}
	}
	if (len(a.Gateway.Routes) == 0) && len(b.Gateway.Routes) > 0 {
		names = append(names, "gateway.routes, the first of them")
	}
	return names
}

// follow adopts what is published, until ctx is done.
func (p *Program) follow(ctx context.Context) {
	from := int64(0)
	if v := p.published.Load(); v != nil {
		from = v.number
	}
	f := published.Follower{
		Conn:  p.conn,
		Adopt: p.adoptVersion,
		Trouble: func(err error) {
			if err == nil {
				p.log.Info("the store says again which policies were published")
				return
			}
			p.log.Error("the store does not say which policies were published: those before stay in force", "error", err)
		},
	}
	f.Run(ctx, from)
}

// conn is the connection to the Redis, or nil while there is none.
func (p *Program) conn() redisstore.Conn {
	if p.late == nil {
		return nil
	}
	if r := p.late.redis.Load(); r != nil {
		return r.conn
	}
	return nil
}

// adoptVersion puts published policies into force. All else stays as it is, and no file
// is read: one that is broken at this moment is no reason to stay behind.
func (p *Program) adoptVersion(v published.Version) {
	p.reloading.Lock()
	defer p.reloading.Unlock()
	why := fmt.Sprintf("version %d was published by %q", v.Number, v.By)
	read, err := parse(v)
	if err != nil {
		p.refused(ofStore, why, err)
		return
	}
	old := p.current.Load()
	g, err := p.assemble(old.config, old.limits, read)
	if err == nil {
		p.published.Store(read)
	}
	p.put(ofStore, why, g, err)
}

// parse reads the policies of a version.
func parse(v published.Version) (*version, error) {
	f, err := weirfile.Parse(fmt.Sprintf("version %d", v.Number), []byte(v.Text))
	if err != nil {
		return nil, err
	}
	return &version{v.Number, f.Policies}, nil
}

// startPublished finds what was published before the program started, if the store
// says so within a second. Until it does, the policies of the file are in force.
func (p *Program) startPublished(ctx context.Context) error {
	conn := p.conn()
	if !p.config.Published || conn == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	read, err := newest(ctx, conn)
	switch {
	case errors.Is(err, published.ErrNone):
		p.log.Info("no policies were published yet: those of the file are in force")
	case err != nil:
		p.log.Error("the published policies are not to be had: those of the file are in force", "error", err)
	default:
		p.published.Store(read)
	}
	return nil
}

// newest is the last version that can be read. A newer program may have published what
// this one cannot; it then goes by the one that those go by which ran before.
func newest(ctx context.Context, conn redisstore.Conn) (*version, error) {
	n, err := published.Current(ctx, conn)
	if err != nil {
		return nil, err
	}
	err = published.ErrNone
	for ; n > 0; n-- {
		v, e := published.Get(ctx, conn, n)
		switch {
		case errors.Is(e, published.ErrNone):
			return nil, err
		case e != nil:
			return nil, e
		}
		read, e := parse(v)
		if e == nil {
			return read, nil
		}
		err = e
	}
	return nil, err
}
