package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/memstore"
)

// MinToken is the shortest token, in bytes.
const MinToken = 16

// Check reports why a door may not be opened at an address with a token, "" for none:
// one that other machines can reach needs a token, and a token is no shorter than
// MinToken and has no spaces. The text says how to set one. It wraps weir.ErrInvalid.
func Check(address, token string) error {
	host, _, err := net.SplitHostPort(address)
	switch {
	case err != nil:
		return fmt.Errorf("admin: address %.80q: %w: want HOST:PORT such as 127.0.0.1:9090", address, weir.ErrInvalid)
	case token == "" && !isLoopback(host):
		return fmt.Errorf("admin: address %s: %w: other machines can reach it, so it needs a token: "+
			"openssl rand -hex 32 >FILE and --admin-token-file FILE; or listen on 127.0.0.1", address, weir.ErrInvalid)
	case token != "" && len(token) < MinToken:
		return fmt.Errorf("admin: token: %w: want at least %d bytes, got %d: openssl rand -hex 32 makes a good one", weir.ErrInvalid, MinToken, len(token))
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return fmt.Errorf("admin: token: %w: want ASCII without spaces", weir.ErrInvalid)
	}
	return nil
}

// isLoopback reports whether a host is this machine alone.
func isLoopback(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback()
	}
	return problem.IsLocalhost(host)
}

// The tries that whoever guesses a token has: for one address, and in the log for all.
const (
	maxAttempts = "10/m"
	maxLogLines = "1/s burst 10"
	// maxGuessers is how many addresses are told apart; further ones share their tries.
	maxAddresses = 1 << 16
)

// A guard asks for the token.
type tokenCheck struct {
	token    [sha256.Size]byte
	disabled bool // there is no token
	attempts *weir.Limiter
	logLines *weir.Limiter
	logger   *slog.Logger
}

func newTokenCheck(token string, log *slog.Logger) (*tokenCheck, error) {
	g := &tokenCheck{token: sha256.Sum256([]byte(token)), disabled: token == "", logger: log}
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

// wrap is next for those who show the token.
func (g *tokenCheck) wrap(next http.Handler) http.Handler {
	if g.disabled {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown, some := credentials(r)
		if !some {
			g.refuse(w, "this needs a token: Authorization: Bearer TOKEN")
			return
		}
		who := peer(r)
		d, err := g.attempts.Peek(r.Context(), who, 1)
		if err == nil && d.OK {
			// Hashes have one length, so the time tells nothing about the token's.
			hash := sha256.Sum256([]byte(shown))
			if subtle.ConstantTimeCompare(hash[:], g.token[:]) == 1 {
				next.ServeHTTP(w, r)
				return
			}
			d, err = g.attempts.Take(r.Context(), who, 1)
		}
		switch {
		case err != nil: // which a store in memory that shares does not do
			problem.Write(w, problem.Problem{Status: http.StatusServiceUnavailable, Detail: "the token could not be checked"})
		case !d.OK:
			w.Header().Set("Retry-After", strconv.FormatInt(int64((d.RetryAfter+time.Second-1)/time.Second), 10))
			problem.Write(w, problem.Problem{Status: http.StatusTooManyRequests, Detail: "too many wrong tokens from this address"})
		default:
			g.log(r, who)
			g.refuse(w, "the token is wrong")
		}
	})
}

func (g *tokenCheck) refuse(w http.ResponseWriter, why string) {
	w.Header().Set("WWW-Authenticate", `Basic realm="weir", charset="UTF-8"`)
	w.Header().Add("WWW-Authenticate", "Bearer")
	problem.Write(w, problem.Problem{Status: http.StatusUnauthorized, Detail: why})
}

// tell logs a wrong token, but not the token: it may be the right one of another
// machine.
func (g *tokenCheck) log(r *http.Request, who string) {
	if d, err := g.logLines.Take(context.WithoutCancel(r.Context()), "lines", 1); err == nil && d.OK {
		g.logger.LogAttrs(r.Context(), slog.LevelWarn, "wrong token at the admin door", slog.String("from", who))
	}
}

// credentials are what r shows as its token. Two of them are none.
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

// peer is the address that r comes from; of IPv6 the network, since who has one address
// of it has all.
func peer(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return "unknown"
	}
	addr := at.Addr().Unmap().WithZone("")
	if addr.Is4() {
		return addr.String()
	}
	network, _ := addr.Prefix(64) // which every IPv6 address has
	return network.String()
}
