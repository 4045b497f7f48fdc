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

// makeLogins makes the guards of the login. Their limits hold if the file says nothing of
// them; they count every attempt then, and not failures alone.
func (l *Layers) makeLogins() (err error) {
	for i, p := range []guard.Point{
		{Name: "login-name", Limits: []weir.Limit{weir.MustLimit("10/15m burst 5")}},
		{Name: "login-address", Limits: []weir.Limit{weir.MustLimit("40/15m burst 20")}},
	} {
		if l.logins[i], err = l.registry.Guard(p); err != nil {
			return fmt.Errorf("layers: %w", err)
		}
	}
	return nil
}

// Login asks whether a login of a name from the client of r may be tried. If not, it says
// when to ask again. Otherwise done is called once, with whether it failed.
func (l *Layers) Login(ctx context.Context, r *http.Request, name string) (done func(failed bool), retry time.Duration, ok bool) {
	var entries [2]*guard.Entry
	for i, key := range []string{strings.ToLower(name), network(l.client.Addr(r))} {
		e, err := l.logins[i].Enter(ctx, key)
		if err != nil && !guard.LetsThrough(err) {
			for _, before := range entries[:i] {
				before.Exit(nil) // nothing failed: what counts failures gets its token back
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

// network is whose an address is: of IPv6, its first 64 bits.
func network(a netip.Addr) string {
	if a.Is6() {
		p, _ := a.Prefix(64)
		return p.String()
	}
	return a.String()
}

// TLS reports whether the client of r came by TLS, by this connection or by the word of a
// trusted proxy.
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
