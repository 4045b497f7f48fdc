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

// logins are what a failed login counts against: the name at an address first, so that who
// guesses a name keeps nobody but himself from it; the address, whatever the names; and the
// name, with so much room that to use it up takes twenty addresses.
const logins = 3

// makeLogins makes the guards of the login. Their limits hold if the file says nothing of
// them; they count every attempt then, and not failures alone.
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

// Login asks whether a login of a name from the client of r may be tried. If not, it says
// when to ask again. Otherwise done is called once, with whether it failed.
func (l *Layers) Login(ctx context.Context, r *http.Request, name string) (done func(failed bool), retry time.Duration, ok bool) {
	var entries [logins]*guard.Entry
	name, from := strings.ToLower(name), network(l.client.Addr(r))
	for i, key := range [logins]string{from + " " + name, from, name} {
		e, err := l.logins[i].Enter(ctx, key)
		if err != nil && !guard.FailsOpen(err) {
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

// Network is where the client of r comes from: its address, of IPv6 the first 64 bits.
func (l *Layers) Network(r *http.Request) string { return network(l.client.Addr(r)) }

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
