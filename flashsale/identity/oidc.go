package identity

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// oidcTimeout bounds a call of the provider.
const oidcTimeout = 10 * time.Second

// OIDCConfig configures an OIDC. Issuer, ClientID and RedirectURL are required.
type OIDCConfig struct {
	// Issuer is the URL of the provider, below which it has .well-known/openid-configuration.
	Issuer string

	// ClientID and ClientSecret are of the client that is registered at the provider. A public
	// client has no secret.
	ClientID, ClientSecret string

	// RedirectURL is the address to which the provider returns the browser: the shop's address
	// and /login/callback. It is registered at the provider.
	RedirectURL string

	Client *http.Client     // for calls of the provider; http.DefaultClient if nil
	Clock  func() time.Time // time.Now if nil
}

// OIDC is a login at an OpenID provider, by the authorization code flow with PKCE. It reads the
// provider's configuration at the first login. It is safe for concurrent use.
type OIDC struct {
	c        OIDCConfig
	mu       sync.Mutex
	provider *oidc.Provider // nil until it was read
}

// Login is a login in progress. The browser keeps it in a signed cookie.
type Login struct {
	State, Nonce, Verifier string
	Return                 string // where the buyer goes afterwards
}

// NewOIDC returns an OIDC. It does not call the provider.
func NewOIDC(c OIDCConfig) (*OIDC, error) {
	for _, f := range []struct{ name, value string }{{"issuer", c.Issuer}, {"redirect URL", c.RedirectURL}} {
		u, err := url.Parse(f.value)
		local := err == nil && (u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1" || u.Hostname() == "::1")
		if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !local) || u.Fragment != "" || u.User != nil {
			return nil, fmt.Errorf("identity: %s: got %.200q, want an https URL", f.name, f.value)
		}
	}
	if c.ClientID == "" {
		return nil, errors.New("identity: client: got none, want the ID of the client at the provider")
	}
	if c.Client == nil {
		c.Client = http.DefaultClient
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return &OIDC{c: c}, nil
}

// config returns the provider and the client, and reads the provider's configuration once.
func (o *OIDC) config(ctx context.Context) (*oidc.Provider, *oauth2.Config, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.provider == nil {
		// The keys of the provider are read later with this client, too.
		p, err := oidc.NewProvider(oidc.ClientContext(ctx, o.c.Client), o.c.Issuer)
		if err != nil {
			return nil, nil, fmt.Errorf("identity: provider: %w", err)
		}
		o.provider = p
	}
	return o.provider, &oauth2.Config{
		ClientID: o.c.ClientID, ClientSecret: o.c.ClientSecret, Endpoint: o.provider.Endpoint(), RedirectURL: o.c.RedirectURL, Scopes: []string{oidc.ScopeOpenID},
	}, nil
}

// Begin returns the address at the provider to which the browser goes, and the login.
func (o *OIDC) Begin(ctx context.Context, returnTo string) (string, Login, error) {
	ctx, cancel := context.WithTimeout(ctx, oidcTimeout)
	defer cancel()
	_, config, err := o.config(ctx)
	if err != nil {
		return "", Login{}, err
	}
	l := Login{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Return: returnTo}
	return config.AuthCodeURL(l.State, oidc.Nonce(l.Nonce), oauth2.S256ChallengeOption(l.Verifier)), l, nil
}

// Finish returns the buyer of a login. query is that with which the provider returned the
// browser. An error that wraps ErrInvalid means that the login is not accepted.
func (o *OIDC) Finish(ctx context.Context, l Login, query url.Values) (Buyer, error) {
	invalid := func(format string, args ...any) (Buyer, error) {
		return Buyer{}, fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case l.State == "" || subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(l.State)) != 1:
		return invalid("state: it is not of this browser's login")
	case query.Get("error") != "":
		return invalid("the provider returned %.100q", query.Get("error"))
	case query.Get("code") == "":
		return invalid("code: got none")
	case query.Get("iss") != "" && query.Get("iss") != o.c.Issuer:
		return invalid("iss: got %.200q, want %q", query.Get("iss"), o.c.Issuer)
	}
	ctx, cancel := context.WithTimeout(ctx, oidcTimeout)
	defer cancel()
	provider, config, err := o.config(ctx)
	if err != nil {
		return Buyer{}, err
	}
	ctx = oidc.ClientContext(ctx, o.c.Client)
	token, err := config.Exchange(ctx, query.Get("code"), oauth2.VerifierOption(l.Verifier))
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.Response.StatusCode < 500 {
		return invalid("the provider refused the code")
	}
	if err != nil {
		return Buyer{}, fmt.Errorf("identity: exchange: %w", err)
	}
	raw, _ := token.Extra("id_token").(string)
	if raw == "" {
		return invalid("id_token: got none")
	}
	id, err := provider.Verifier(&oidc.Config{ClientID: o.c.ClientID, Now: o.c.Clock}).Verify(ctx, raw)
	switch {
	case err != nil:
		return invalid("%v", err)
	case subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(l.Nonce)) != 1:
		return invalid("nonce: it is not of this login")
	case id.Subject == "" || len(id.Subject) > 255:
		return invalid("sub: got %d bytes, want 1 to 255", len(id.Subject))
	}
	return Buyer{ID: userID(o.c.Issuer, id.Subject), Proof: ByOIDC}, nil
}
