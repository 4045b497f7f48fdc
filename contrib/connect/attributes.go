package weirconnect

import (
	"context"
	"net/http"
	"net/netip"
	"strings"

	"connectrpc.com/connect"

	"github.com/floodweir/weir/httplimit"
)

// attributes implements policy.Attributes for a call.
type attributes struct {
	ctx       context.Context
	method    string
	procedure string
	header    http.Header
	peer      connect.Peer
	client    *httplimit.ClientAddress
	addr      netip.Addr
	located   bool
}

func (a *attributes) Method() string { return a.method }

func (a *attributes) Host() string { return a.header.Get("Host") } // where Connect puts it

func (a *attributes) Path() string { return a.procedure }

func (a *attributes) Header(name string) []string {
	if strings.HasSuffix(name, "-Bin") {
		return nil
	}
	return a.header[name]
}

func (a *attributes) Query(name string) []string { return a.peer.Query[name] }

func (a *attributes) Cookie(name string) []string {
	r := http.Request{Header: a.header}
	var values []string
	for _, c := range r.CookiesNamed(name) {
		values = append(values, c.Value)
	}
	return values
}

func (a *attributes) ClientIP() netip.Addr {
	if !a.located {
		a.addr, a.located = a.client.Addr(&http.Request{RemoteAddr: a.peer.Addr, Header: a.header}), true
	}
	return a.addr
}
