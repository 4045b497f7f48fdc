package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"net/netip"
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

// A tokenCheck requires the token.
type tokenCheck struct {
	name     string                            // of the interface
	token    atomic.Pointer[[sha256.Size]byte] // its hash
	disabled bool                              // no token is configured
	attempts *weir.Limiter
	logLines *weir.Limiter
	logger   *slog.Logger
}

func newTokenCheck(name, token string, log *slog.Logger) (*tokenCheck, error) {
	g := &tokenCheck{name: name, disabled: token == "", logger: log}
	g.set(token)
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

// set replaces the token.
func (g *tokenCheck) set(token string) {
	hash := sha256.Sum256([]byte(token))
	g.token.Store(&hash)
}

// wrap returns a handler that calls next for requests with the token.
func (g *tokenCheck) wrap(next http.Handler) http.Handler {
	if g.disabled {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown, some := credentials(r)
		if !some {
			g.refuse(w, "token required: Authorization: Bearer TOKEN")
			return
		}
		who := peer(r)
		d, err := g.attempts.Peek(r.Context(), who, 1)
		if err == nil && d.OK {
			// Hashes have the same length, so the time does not depend on the token's length.
			hash := sha256.Sum256([]byte(shown))
			if subtle.ConstantTimeCompare(hash[:], g.token.Load()[:]) == 1 {
				next.ServeHTTP(w, r)
				return
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
			g.refuse(w, "wrong token")
		}
	})
}

func (g *tokenCheck) refuse(w http.ResponseWriter, why string) {
	w.Header().Set("WWW-Authenticate", `Basic realm="weir", charset="UTF-8"`)
	w.Header().Add("WWW-Authenticate", "Bearer")
	problem.Write(w, problem.Problem{Status: http.StatusUnauthorized, Detail: why})
}

// log logs that a token was wrong, without the token: it may be valid on another machine.
func (g *tokenCheck) log(r *http.Request, who string) {
	if d, err := g.logLines.Take(context.WithoutCancel(r.Context()), "lines", 1); err == nil && d.OK {
		g.logger.LogAttrs(r.Context(), slog.LevelWarn, "wrong token", slog.String("interface", g.name), slog.String("from", who))
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

// peer returns the address of the client; for IPv6 its /64, because one client usually
// has all of it.
func peer(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return "unknown"
	}
	addr := at.Addr().Unmap().WithZone("")
	if addr.Is4() {
		return addr.String()
	}
	network, _ := addr.Prefix(64) // no error: every IPv6 address has a /64
	return network.String()
}
