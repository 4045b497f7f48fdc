package access

import (
	"context"
	"net/http"
	"strings"
)

// A Role says what an actor may do.
type Role string

// Roles, each with the rights of the ones before it. Public is for handlers that need no
// credentials.
const (
	Public  Role = "public"
	Read    Role = "read"
	Operate Role = "operate"
)

// rank orders the roles; 0 for any other text.
func (r Role) rank() int {
	switch r {
	case Public:
		return 1
	case Read:
		return 2
	case Operate:
		return 3
	}
	return 0
}

// Valid reports whether r is one of the roles.
func (r Role) Valid() bool { return r.rank() > 0 }

// Includes reports whether an actor with role r may do what needs the role needed.
func (r Role) Includes(needed Role) bool { return needed.Valid() && r.rank() >= needed.rank() }

// An Actor is the sender of a request, for decisions and audit entries.
type Actor struct {
	Name string
	Role Role
	Via  string // web, http or cli
}

// Names of actors without a token of their own.
const (
	localName  = "local"     // neither token nor certificate is configured
	adminName  = "admin"     // the only token of a file without names
	publicName = "anonymous" // no credentials, at a public path
)

// UserAgent is the User-Agent of the commands of weir. It marks their requests as cli in
// audit entries.
const UserAgent = "weir-cli"

type actorKey struct{}

// WithActor returns a context with an actor.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// ActorOf returns the actor of a request that an Access passed on. Its Role is Public
// without the credentials that other paths require, and for a context without an actor.
func ActorOf(ctx context.Context) Actor {
	if a, ok := ctx.Value(actorKey{}).(Actor); ok {
		return a
	}
	return Actor{Name: publicName, Role: Public, Via: "http"}
}

// Anonymous reports whether a request for a public path came without the credentials that
// other paths require.
func Anonymous(ctx context.Context) bool {
	a, ok := ctx.Value(actorKey{}).(Actor)
	return ok && a.Role == Public
}

// via says what sent r: a page, the commands of weir, or another client.
func via(r *http.Request) string {
	switch {
	case r.Header.Get("Sec-Fetch-Site") != "":
		return "web"
	case strings.HasPrefix(r.UserAgent(), UserAgent):
		return "cli"
	}
	return "http"
}

// certified returns the actor of a request without a token: the subject of its client
// certificate, or local.
func certified(r *http.Request) Actor {
	a := Actor{localName, Operate, via(r)}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		if a.Name = r.TLS.PeerCertificates[0].Subject.CommonName; a.Name == "" {
			a.Name = "certificate"
		}
		a.Name = limitName(a.Name)
	}
	return a
}

// maxName is the maximum length of a name in bytes.
const maxName = 64

// limitName shortens a name from a certificate and removes bytes that are not printable
// ASCII.
func limitName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 0x7f {
			return '_'
		}
		return r
	}, s)
	return s[:min(len(s), maxName)]
}
