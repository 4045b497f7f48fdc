package layers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/guard"
)

var errFailed = errors.New("layers: login failed")

// logins lists the keys that a failed login is charged to. The name at one address comes first,
// so that guessing a name affects that address alone. Then come the address with any name, and
// the name with a limit that takes twenty addresses to exhaust.
const logins = 3

// makeLogins makes the guards of the login. If the file has no such rule, a default limit
// counts every attempt and not only failures.
func (l *Layers) makeLogins() (err error) {
	for i, p := range [logins]guard.Resource{
		{Name: "login", Limits: []weir.Limit{weir.MustLimit("10/15m burst 5")}},
		{Name: "login-address", Limits: []weir.Limit{weir.MustLimit("40/15m burst 20")}},
		{Name: "login-name", Limits: []weir.Limit{weir.MustLimit("200/15m burst 100")}},
	} {
		if l.logins[i], err = l.registry.Guard(p); err != nil {
			return fmt.Errorf("layers: %w", err)
		}
	}
	return nil
}

// Login asks whether the client of r may try to log in as name. If not, it returns when to
// retry. Otherwise the caller calls done once, with whether the login failed.
func (l *Layers) Login(ctx context.Context, r *http.Request, name string) (done func(failed bool), retry time.Duration, ok bool) {
	var entries [logins]*guard.Entry
	name, from := strings.ToLower(name), network(l.client.Addr(r))
	for i, key := range [logins]string{from + " " + name, from, name} {
		e, err := l.logins[i].Enter(ctx, key)
		if err != nil && !guard.FailsOpen(err) {
			for _, before := range entries[:i] {
				before.Exit(nil) // nothing failed: return the token
			}
			retry = time.Second
			if d, denied := errors.AsType[*guard.Denied](err); denied && d.Decision.RetryAfter > retry && d.Decision.RetryAfter != weir.Never {
				retry = d.Decision.RetryAfter
			}
			return nil, retry, false
		}
		entries[i] = e
	}
	return func(failed bool) {
		var err error
		if failed {
			err = errFailed
		}
		for _, e := range entries {
			e.Exit(err)
		}
	}, 0, true
}

// Network returns the address of r's client, or the first 64 bits of an IPv6 address.
func (l *Layers) Network(r *http.Request) string { return network(l.client.Addr(r)) }

// Address returns the address of r's client.
func (l *Layers) Address(r *http.Request) netip.Addr { return l.client.Addr(r) }

// network returns an address, or the first 64 bits of an IPv6 address.
func network(a netip.Addr) string {
	if a.Is6() {
		p, _ := a.Prefix(64)
		return p.String()
	}
	return a.String()
}

// TLS reports whether the client of r uses TLS, on this connection or as a trusted proxy
// reports.
func (l *Layers) TLS(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	for _, p := range l.client.Trusted {
		if p.Contains(peer.Addr().Unmap()) {
			return r.Header.Get("X-Forwarded-Proto") == "https"
		}
	}
	return false
}
