package run

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/floodweir/weir/flashsale/identity"
)

// Identity configures who buyers are: by tokens of the shop, by a login at an OpenID provider, or
// by both. Its zero value makes every buyer a guest.
type Identity struct {
	// Buyers is the shop's own implementation. It replaces the tokens.
	Buyers identity.Buyers `json:"-"`

	// JWTKey is the file with the key of the shop's tokens, JWTAlgorithm EdDSA, ES256 or HS256,
	// JWTIssuer their claim iss and JWTCookie a cookie with the token (none if empty).
	JWTKey, JWTAlgorithm, JWTIssuer, JWTCookie string

	// OIDCIssuer is the URL of an OpenID provider, and OIDCClient the ID of the client there.
	// OIDCSecret is the file with its secret (none for a public client). OIDCRedirect is the
	// address of the shop with /login/callback.
	OIDCIssuer, OIDCClient, OIDCSecret, OIDCRedirect string

	// SignIn is the address where buyers sign in, for the pages; /login with a provider if
	// empty.
	SignIn string
}

// given reports whether buyers can have an identity.
func (i *Identity) given() bool { return i.Buyers != nil || i.JWTKey != "" || i.OIDCIssuer != "" }

// check returns the errors of the settings that need no file.
func (i *Identity) check() []error {
	var faults []error
	// A setting without the one that it belongs to is a mistake.
	for _, s := range []struct{ field, value, needs, has string }{
		{"jwt-algorithm", i.JWTAlgorithm, "jwt-key", i.JWTKey}, {"jwt-issuer", i.JWTIssuer, "jwt-key", i.JWTKey}, {"jwt-cookie", i.JWTCookie, "jwt-key", i.JWTKey},
		{"oidc-client", i.OIDCClient, "oidc-issuer", i.OIDCIssuer}, {"oidc-secret", i.OIDCSecret, "oidc-issuer", i.OIDCIssuer}, {"oidc-redirect", i.OIDCRedirect, "oidc-issuer", i.OIDCIssuer},
	} {
		if s.value != "" && s.has == "" {
			faults = append(faults, fmt.Errorf("%s %q: want --%s too", s.field, s.value, s.needs))
		}
	}
	if i.Buyers != nil && i.JWTKey != "" {
		faults = append(faults, fmt.Errorf("jwt-key %q: want either it or Buyers", i.JWTKey))
	}
	if u, err := url.Parse(i.SignIn); i.SignIn != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" && !strings.HasPrefix(i.SignIn, "/")) {
		faults = append(faults, fmt.Errorf("sign-in %q: want a URL or a path", i.SignIn))
	}
	if i.OIDCIssuer != "" && !strings.HasSuffix(i.OIDCRedirect, "/login/callback") {
		faults = append(faults, fmt.Errorf("oidc-redirect %q: want the address of the shop with /login/callback", i.OIDCRedirect))
	}
	return faults
}

// open reads the files and returns the two parts; each is nil if it is not configured.
func (i *Identity) open(clock func() time.Time) (identity.Buyers, *identity.OIDC, error) {
	buyers := i.Buyers
	if i.JWTKey != "" {
		key, err := os.ReadFile(i.JWTKey)
		if err != nil {
			return nil, nil, fmt.Errorf("jwt-key: %w", err)
		}
		if i.JWTAlgorithm == "HS256" {
			key = []byte(strings.TrimSpace(string(key)))
		}
		buyers, err = identity.NewJWT(identity.JWTConfig{Algorithm: i.JWTAlgorithm, Issuer: i.JWTIssuer, Key: key, Cookie: i.JWTCookie, Clock: clock})
		if err != nil {
			return nil, nil, fmt.Errorf("jwt: %w", err)
		}
	}
	if i.OIDCIssuer == "" {
		return buyers, nil, nil
	}
	secret := ""
	if i.OIDCSecret != "" {
		text, err := os.ReadFile(i.OIDCSecret)
		if err != nil {
			return nil, nil, fmt.Errorf("oidc-secret: %w", err)
		}
		secret = strings.TrimSpace(string(text))
	}
	o, err := identity.NewOIDC(identity.OIDCConfig{Issuer: i.OIDCIssuer, ClientID: i.OIDCClient, ClientSecret: secret, RedirectURL: i.OIDCRedirect, Clock: clock})
	if err != nil {
		return nil, nil, fmt.Errorf("oidc: %w", err)
	}
	return buyers, o, nil
}
