package run

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
	"github.com/floodweir/weir/cmd/weir/internal/respd"
	"github.com/floodweir/weir/cmd/weir/internal/rls"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/policy"
)

// rateLimits are what the door of gRPC serves, or nil for nothing.
func (p *Program) rateLimits(c *config.Config) (*ratelimit.Config, error) {
	switch {
	case c.GRPC.Config != "" && c.GRPC.MergeDomains:
		return ratelimit.LoadMerged(c.GRPC.Config)
	case c.GRPC.Config != "":
		return ratelimit.Load(c.GRPC.Config)
	case c.Demo():
		return ratelimit.Parse("demo-ratelimit.yaml", config.DemoRateLimits())
	}
	return nil, nil
}

// newRLS makes what answers Envoy, over gRPC and at /json; nil without a configuration.
func (p *Program) newRLS() (*rls.Server, error) {
	c := p.config.GRPC
	if c.Config == "" && !p.config.Demo() {
		return nil, nil
	}
	return rls.New(rls.Config{
		Store: p.metrics.Door("grpc", p.orElse(c.OnStoreError)), Shadow: c.Shadow, Quota: c.Quota,
		ResponseHeaders: c.ResponseHeaders, DynamicMetadata: c.DynamicMetadata,
		Log: p.log.With("door", "grpc"), Observe: p.observeHits,
	})
}

// orElse is the store with what decides in its place.
func (p *Program) orElse(mode policy.FailMode) weir.Store {
	var instead weir.Store
	switch mode {
	case policy.Open:
		instead = failover.Open()
	case policy.Closed:
		instead = failover.Closed()
	case policy.Local:
		instead = p.local
	}
	if instead == nil || p.bounded == nil {
		return p.store
	}
	return failover.WithFallback(p.bounded, instead)
}

// startGRPC opens the door of Envoy's protocol.
func (p *Program) startGRPC() error {
	c := p.config.GRPC
	switch {
	case c.Listen == config.Off:
		return nil
	case p.rls == nil:
		p.log.Debug("no --grpc-config: the gRPC door stays shut")
		return nil
	}
	sc := rls.ServerConfig{StatsHandler: p.telemetry.GRPC(), Log: p.log.With("door", "grpc")}
	if c.CertFile != "" {
		pair := &keyPair{certFile: c.CertFile, keyFile: c.KeyFile, log: p.log}
		if err := pair.load(time.Now()); err != nil {
			return fmt.Errorf("grpc: --grpc-tls-cert %s, --grpc-tls-key %s: %w", c.CertFile, c.KeyFile, err)
		}
		sc.GetCertificate = pair.get
	}
	if c.ClientCAFile != "" {
		pem, err := os.ReadFile(c.ClientCAFile)
		if err != nil {
			return fmt.Errorf("grpc: --grpc-client-ca: %w", err)
		}
		sc.ClientCAs = x509.NewCertPool()
		if !sc.ClientCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("grpc: --grpc-client-ca %s: want certificates in PEM", c.ClientCAFile)
		}
	}
	p.grpc = rls.NewServer(sc)
	p.rls.Register(p.grpc)
	return p.listen(&p.grpcAt, "grpc", "listen-grpc", c.Listen, c.ClientCAFile == "", p.grpc.Serve, p.grpc.Shutdown)
}

// startRESP opens the door of CL.THROTTLE.
func (p *Program) startRESP() error {
	c := p.config.RESP
	if c.Listen == config.Off {
		return nil
	}
	s, err := respd.New(respd.Config{
		Store: p.metrics.Door("resp", p.store), Password: c.Password, Version: p.in.Version,
		Log: p.log.With("door", "resp"), Observe: p.observeThrottle,
	})
	if err != nil {
		return err
	}
	return p.listen(&p.respAt, "resp", "listen-resp", c.Listen, c.Password == "", s.Serve, s.Shutdown)
}

// listen opens a door that is no HTTP server and remembers to stop it. Where it
// listens is put into at.
func (p *Program) listen(at *net.Addr, name, flag, addr string, trusts bool, serve func(net.Listener) error, shutdown func(context.Context) error) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return cannotListen(name, flag, addr, err)
	}
	*at = l.Addr()
	p.log.Info("listening", "door", name, "address", l.Addr().String())
	warnOpen(p.log, name, l.Addr(), trusts)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := serve(l); err != nil && !errors.Is(err, net.ErrClosed) {
			p.failed <- fmt.Errorf("%s: %w", name, err)
		}
	}()
	p.drains = append(p.drains, func(ctx context.Context) {
		if err := shutdown(ctx); err != nil {
			p.log.Warn("requests were cut off at the end of the drain", "door", name)
		}
		l.Close()
		<-ended
	})
	return nil
}
