// Package access decides who may use an HTTP interface of the program: by a token, and by
// the Host of the request.
//
//	a, err := access.New(access.Config{Interface: "http", Hosts: []string{"weir.internal"}})
//	…
//	handler = a.Wrap(handler)
//
// Without a token or client certificates, the Host of a request must be an address,
// localhost or a configured name. This refuses a web page whose name was pointed at this
// machine (DNS rebinding). With them any Host is accepted, because such a page has no
// credentials.
package access

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
)

// Config is the configuration of an Access.
type Config struct {
	// Interface is the name of the interface, for errors and the log.
	Interface string

	// Token is the token that requests have to send; none if empty. Certificates means that
	// clients need a certificate, which the listener checks.
	Token        string
	Certificates bool

	// Hosts are further names that are accepted as Host without credentials, in lower case.
	Hosts []string

	// Public are the paths that need no credentials. Handlers learn from [Anonymous] that
	// there were none. Proxy is a path that neither needs credentials nor has its Host
	// checked, because its handler checks the address of the caller; none if empty.
	Public []string
	Proxy  string

	// Log receives failed authentication attempts; nothing is logged if nil.
	Log *slog.Logger
}

// An Access applies a Config to requests. It is safe for concurrent use.
type Access struct {
	c     Config
	token *tokenCheck
}

// MinToken is the minimum length of a token in bytes.
const MinToken = 16

// New returns an Access. An error wraps weir.ErrInvalid: a token needs at least MinToken
// bytes, in ASCII without spaces.
func New(c Config) (*Access, error) {
	if c.Token != "" {
		if err := c.check(c.Token); err != nil {
			return nil, err
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	t, err := newTokenCheck(c.Interface, c.Token, c.Log)
	return &Access{c, t}, err
}

// check validates a token.
func (c *Config) check(token string) error {
	switch {
	case len(token) < MinToken:
		return fmt.Errorf("%s: token: %w: got %d bytes, want at least %d: create one with openssl rand -hex 32", c.Interface, weir.ErrInvalid, len(token), MinToken)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return fmt.Errorf("%s: token: %w: want ASCII without spaces", c.Interface, weir.ErrInvalid)
	}
	return nil
}

// SetToken replaces the token for requests that begin from now on. An error wraps
// weir.ErrInvalid: the new token is not valid, or there was none.
func (a *Access) SetToken(token string) error {
	if a.c.Token == "" {
		return fmt.Errorf("%s: token: %w: want an Access that was made with a token", a.c.Interface, weir.ErrInvalid)
	}
	if err := a.c.check(token); err != nil {
		return err
	}
	a.token.set(token)
	return nil
}

func (c *Config) credentials() bool { return c.Token != "" || c.Certificates }

// Wrap returns a handler that calls next for requests with the credentials.
func (a *Access) Wrap(next http.Handler) http.Handler {
	authenticated := a.token.wrap(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case a.c.Proxy != "" && r.URL.Path == a.c.Proxy:
			next.ServeHTTP(w, r)
		case !a.c.credentials() && !a.accepts(r.Host):
			problem.Write(w, problem.Problem{Status: http.StatusForbidden, Field: "Host", Value: problem.Shorten(r.Host),
				Expected: "an address, localhost or a configured name", Detail: "Host refused: without credentials, want " + a.hosts()})
		case a.c.Token != "" && r.Header["Authorization"] == nil && slices.Contains(a.c.Public, r.URL.Path):
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), anonymous{}, true)))
		default:
			authenticated.ServeHTTP(w, r)
		}
	})
}

// accepts reports whether a request without credentials may have this Host.
func (a *Access) accepts(host string) bool {
	if problem.IsAddress(host) {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return slices.Contains(a.c.Hosts, strings.ToLower(strings.TrimSuffix(host, ".")))
}

func (a *Access) hosts() string {
	return strings.Join(append([]string{"an address", "localhost"}, a.c.Hosts...), " or ")
}

type anonymous struct{}

// Anonymous reports whether a request for a public path came without the credentials that
// other paths require.
func Anonymous(ctx context.Context) bool { return ctx.Value(anonymous{}) != nil }
