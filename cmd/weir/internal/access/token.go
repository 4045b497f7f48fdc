package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/memstore"
)

// Limits on wrong tokens: attempts per address, and lines in the log.
const (
	maxAttempts = "10/m"
	maxLogLines = "1/s burst 10"
	// maxAddresses is the maximum number of addresses with attempts of their own; further
	// ones share one bucket.
	maxAddresses = 1 << 16
)

// A tokenCheck finds the user of a token.
type tokenCheck struct {
	c        Config
	users    atomic.Pointer[[]*user]
	attempts *weir.Limiter
	logLines *weir.Limiter
}

func newTokenCheck(c Config, users []*user) (*tokenCheck, error) {
	g := &tokenCheck{c: c}
	g.users.Store(&users)
	store, err := memstore.New(memstore.Config{MaxKeys: maxAddresses, Full: memstore.Share})
	if err != nil {
		return nil, err
	}
	if g.attempts, err = weir.New(store, weir.MustLimit(maxAttempts), weir.Config{Prefix: "tries"}); err != nil {
		return nil, err
	}
	g.logLines, err = weir.New(store, weir.MustLimit(maxLogLines), weir.Config{Prefix: "lines"})
	return g, err
}

// set replaces the users and removes those that are not among the new ones.
func (g *tokenCheck) set(users []*user) {
	old := *g.users.Load()
	for i, u := range users {
		for _, o := range old {
			if o.equal(u) {
				users[i] = o
			}
		}
	}
	g.users.Store(&users)
	for _, o := range old {
		if !slices.Contains(users, o) {
			o.remove()
		}
	}
}

// find returns the user of a token, or nil. Its time does not depend on the token: hashes
// have the same length, and all are compared.
func (g *tokenCheck) find(token string) (found *user) {
	hash := sha256.Sum256([]byte(token))
	for _, u := range *g.users.Load() {
		if subtle.ConstantTimeCompare(hash[:], u.hash[:]) == 1 {
			found = u
		}
	}
	return found
}

// verify returns the user of a token, or responds and returns nil. Wrong tokens are
// limited per address.
func (g *tokenCheck) verify(w http.ResponseWriter, r *http.Request, token string) *user {
	who := network(g.c.Client.Addr(r))
	d, err := g.attempts.Peek(r.Context(), who, 1)
	if err == nil && d.OK {
		if u := g.find(token); u != nil {
			return u
		}
		d, err = g.attempts.Take(r.Context(), who, 1)
	}
	switch {
	case err != nil: // unreachable: a memory store with an overflow bucket returns no error
		problem.Write(w, problem.Problem{Status: http.StatusServiceUnavailable, Detail: "token not checked"})
	case !d.OK:
		w.Header().Set("Retry-After", strconv.FormatInt(int64((d.RetryAfter+time.Second-1)/time.Second), 10))
		problem.Write(w, problem.Problem{Status: http.StatusTooManyRequests, Detail: "too many wrong tokens from this address"})
	default:
		g.log(r, who)
		if g.c.Failed != nil {
			g.c.Failed(r.Context(), who, via(r))
		}
		g.refuse(w, r, "wrong token")
	}
	return nil
}

// refuse sends status 401. A browser asks its user for Basic credentials, except for
// requests of a script, whose page has a form.
func (g *tokenCheck) refuse(w http.ResponseWriter, r *http.Request, why string) {
	if mode := r.Header.Get("Sec-Fetch-Mode"); mode == "" || mode == "navigate" {
		w.Header().Set("WWW-Authenticate", `Basic realm="weir", charset="UTF-8"`)
	}
	w.Header().Add("WWW-Authenticate", "Bearer")
	problem.Write(w, problem.Problem{Status: http.StatusUnauthorized, Detail: why})
}

// log logs that a token was wrong, without the token: it may be valid on another machine.
func (g *tokenCheck) log(r *http.Request, who string) {
	if d, err := g.logLines.Take(context.WithoutCancel(r.Context()), "lines", 1); err == nil && d.OK {
		g.c.Log.LogAttrs(r.Context(), slog.LevelWarn, "wrong token", slog.String("interface", g.c.Interface), slog.String("from", who))
	}
}

// credentials returns the token of r. Two Authorization fields count as none.
func credentials(r *http.Request) (token string, some bool) {
	values := r.Header["Authorization"]
	if len(values) != 1 {
		return "", false
	}
	if _, password, ok := r.BasicAuth(); ok {
		return password, true
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.TrimSpace(token), true
}

// network returns a client's address; for IPv6 its /64, because one client usually has all
// of it.
func network(addr netip.Addr) string {
	switch {
	case !addr.IsValid():
		return "unknown"
	case addr.Is4():
		return addr.String()
	}
	prefix, _ := addr.Prefix(64) // no error: every IPv6 address has a /64
	return prefix.String()
}
