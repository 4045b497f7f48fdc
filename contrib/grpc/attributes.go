package weirgrpc

import (
	"context"
	"net/http"
	"net/netip"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/floodweir/weir/httplimit"
)

// attributes implements policy.Attributes for a call.
type attributes struct {
	ctx     context.Context
	method  string
	client  *httplimit.ClientAddress
	addr    netip.Addr
	located bool
}

func (a *attributes) Method() string { return http.MethodPost }

func (a *attributes) Host() string {
	if v := metadata.ValueFromIncomingContext(a.ctx, ":authority"); len(v) > 0 {
		return v[0]
	}
	return ""
}

func (a *attributes) Path() string { return a.method }

func (a *attributes) Header(name string) []string {
	if len(name) >= 4 && strings.EqualFold(name[len(name)-4:], "-bin") {
		return nil
	}
	return metadata.ValueFromIncomingContext(a.ctx, name)
}

func (a *attributes) Query(string) []string { return nil }

func (a *attributes) Cookie(string) []string { return nil }

func (a *attributes) ClientIP() netip.Addr {
	if a.located {
		return a.addr
	}
	r := http.Request{Header: http.Header{}}
	if p, ok := peer.FromContext(a.ctx); ok && p.Addr != nil {
		r.RemoteAddr = p.Addr.String()
	}
	for _, name := range []string{"X-Forwarded-For", "Forwarded"} {
		if v := metadata.ValueFromIncomingContext(a.ctx, name); len(v) > 0 {
			r.Header[name] = v
		}
	}
	a.addr, a.located = a.client.Addr(&r), true
	return a.addr
}
