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
	"github.com/floodweir/weir/httplimit"
)

// Config is the configuration of an Access.
type Config struct {
	// Interface is the name of the interface, for errors and the log.
	Interface string

	// Token is the token that requests have to send, or lines of the form ROLE NAME SHA256,
	// the latter of the token; none if empty. The user of a single token is admin, who may
	// operate. Certificates means that clients need a certificate, which the listener checks.
	Token        string
	Certificates bool

	// Hosts are further names that are accepted as Host without credentials, in lower case.
	Hosts []string

	// Public reports whether a request needs no credentials; none does if nil. Its
	// handler learns that from Anonymous. Proxy is a path that neither needs credentials
	// nor has its Host checked, because its handler checks the address of the caller; none
	// if empty.
	Public func(*http.Request) bool
	Proxy  string

	// Client configures trusted proxies. Their clients have wrong tokens of their own, and
	// sessions if the proxy reports https.
	Client httplimit.ClientAddress

	// Failed, if not nil, is called for each wrong token, with the client's address and what
	// sent it: see Actor.
	Failed func(ctx context.Context, address, via string)

	// Signed, if not nil, is called for each sign-in and sign-out of a browser, with the name and
	// the via of its Actor. action is sign_in or sign_out.
	Signed func(ctx context.Context, name, via, action string)

	// Log receives failed authentication attempts; nothing is logged if nil.
	Log *slog.Logger
}

// An Access applies a Config to requests. It is safe for concurrent use.
type Access struct {
	c        Config
	token    *tokenCheck
	sessions sessions
}

// MinToken is the minimum length of a token in bytes.
const MinToken = 16

// New returns an Access. An error wraps weir.ErrInvalid: a token needs at least MinToken
// bytes, in ASCII without spaces, and a line a role, a name and a hash.
func New(c Config) (*Access, error) {
	users, err := c.users(c.Token)
	if err != nil {
		return nil, err
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	a := &Access{c: c}
	a.token, err = newTokenCheck(c, users)
	return a, err
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

// SetToken replaces the tokens for requests that begin from now on. Sessions and requests
// in progress of a removed or changed line end. An error wraps weir.ErrInvalid: the new
// credentials are not valid, or there were none.
func (a *Access) SetToken(token string) error {
	if a.c.Token == "" || token == "" {
		return fmt.Errorf("%s: token: %w: want an Access that was made with a token, and a new one", a.c.Interface, weir.ErrInvalid)
	}
	users, err := a.c.users(token)
	if err == nil {
		a.token.set(users)
	}
	return err
}

func (c *Config) credentials() bool { return c.Token != "" || c.Certificates }

// Wrap returns a handler that calls next for requests with the credentials, with their
// actor in the context.
func (a *Access) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case a.c.Proxy != "" && r.URL.Path == a.c.Proxy:
			next.ServeHTTP(w, r)
		case !a.c.credentials() && !a.accepts(r.Host):
			problem.Write(w, problem.Problem{Status: http.StatusForbidden, Field: "Host", Value: problem.Shorten(r.Host),
				Expected: "an address, localhost or a configured name", Detail: "Host refused: without credentials, want " + a.hosts()})
		case a.c.Token == "":
			next.ServeHTTP(w, r.WithContext(WithActor(r.Context(), certified(r))))
		default:
			a.authenticate(next, w, r)
		}
	})
}

// authenticate calls next with the actor of the token or of the session.
func (a *Access) authenticate(next http.Handler, w http.ResponseWriter, r *http.Request) {
	if r.Header["Authorization"] != nil {
		shown, some := credentials(r)
		if !some {
			a.token.refuse(w, r, "token required: Authorization: Bearer TOKEN")
			return
		}
		if u := a.token.verify(w, r, shown); u != nil {
			serve(next, w, r, Actor{u.name, u.role, via(r)}, u.removed)
		}
		return
	}
	encrypted, _ := a.transport(r)
	if s := a.sessions.begin(sessionID(r, encrypted)); s != nil {
		defer a.sessions.finish(s)
		ctx, cancel := context.WithDeadline(r.Context(), s.expires)
		defer cancel()
		serve(next, w, r.WithContext(ctx), Actor{s.user.name, s.user.role, "web"}, s.ended)
		return
	}
	if a.c.Public != nil && a.c.Public(r) {
		next.ServeHTTP(w, r.WithContext(WithActor(r.Context(), Actor{publicName, Public, via(r)})))
		return
	}
	a.token.refuse(w, r, "token required: Authorization: Bearer TOKEN")
}

// serve calls next with the actor. The request ends at the latest with ended.
func serve(next http.Handler, w http.ResponseWriter, r *http.Request, actor Actor, ended context.Context) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(ended, cancel)()
	next.ServeHTTP(w, r.WithContext(WithActor(ctx, actor)))
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
