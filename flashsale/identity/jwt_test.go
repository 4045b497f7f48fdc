package identity_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/identity"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const issuer = "https://shop.example"

var now = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func pemOf(t *testing.T, key crypto.PublicKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func claims() jwt.Claims {
	return jwt.Claims{Issuer: issuer, Subject: "ann", Audience: jwt.Audience{"flashsale"}, Expiry: jwt.NewNumericDate(now.Add(5 * time.Minute))}
}

// sign signs claims with a key.
func sign(t *testing.T, alg jose.SignatureAlgorithm, key any, c any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(c).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestJWT(t *testing.T) {
	edPublic, edPrivate, _ := ed25519.GenerateKey(rand.Reader)
	_, otherEd, _ := ed25519.GenerateKey(rand.Reader)
	ec, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	secret := []byte(strings.Repeat("s", 32))
	jwts := map[jose.SignatureAlgorithm]*identity.JWT{}
	for alg, key := range map[jose.SignatureAlgorithm][]byte{jose.EdDSA: pemOf(t, edPublic), jose.ES256: pemOf(t, &ec.PublicKey), jose.HS256: secret} {
		j, err := identity.NewJWT(identity.JWTConfig{Algorithm: string(alg), Issuer: issuer, Key: key, Cookie: "shop", Clock: func() time.Time { return now }})
		if err != nil {
			t.Fatal(alg, err)
		}
		jwts[alg] = j
	}
	change := func(f func(c *jwt.Claims)) jwt.Claims { c := claims(); f(&c); return c }
	none := func() string {
		e := base64.RawURLEncoding
		return e.EncodeToString([]byte(`{"alg":"none"}`)) + "." + strings.Split(sign(t, jose.HS256, secret, claims()), ".")[1] + "."
	}
	good := sign(t, jose.EdDSA, edPrivate, claims())
	for _, c := range []struct {
		name  string
		alg   jose.SignatureAlgorithm
		token string
		want  error
	}{
		{"EdDSA", jose.EdDSA, good, nil},
		{"ES256", jose.ES256, sign(t, jose.ES256, ec, claims()), nil},
		{"HS256", jose.HS256, sign(t, jose.HS256, secret, claims()), nil},
		{"another key", jose.EdDSA, sign(t, jose.EdDSA, otherEd, claims()), identity.ErrInvalid},
		{"another algorithm", jose.HS256, good, identity.ErrInvalid},
		{"the public key as a secret", jose.EdDSA, sign(t, jose.HS256, pemOf(t, edPublic), claims()), identity.ErrInvalid},
		{"no algorithm", jose.HS256, none(), identity.ErrInvalid},
		{"changed", jose.EdDSA, good[:len(good)-4] + "AAAA", identity.ErrInvalid},
		{"no token", jose.EdDSA, "x", identity.ErrInvalid},
		{"too long", jose.EdDSA, strings.Repeat("x", 5000), identity.ErrInvalid},
		{"another issuer", jose.EdDSA, sign(t, jose.EdDSA, edPrivate, change(func(c *jwt.Claims) { c.Issuer = "https://evil.example" })), identity.ErrInvalid},
		{"no issuer", jose.EdDSA, sign(t, jose.EdDSA, edPrivate, change(func(c *jwt.Claims) { c.Issuer = "" })), identity.ErrInvalid},
		{"another audience", jose.EdDSA, sign(t, jose.EdDSA, edPrivate, change(func(c *jwt.Claims) { c.Audience = jwt.Audience{"blog"} })), identity.ErrInvalid},
		{"no audience", jose.EdDSA, sign(t, jose.EdDSA, edPrivate, change(func(c *jwt.Claims) { c.Audience = nil })), identity.ErrInvalid},
		{"no subject", jose.EdDSA, sign(t, jose.EdDSA, edPrivate, change(func(c *jwt.Claims) { c.Subject = "" })), identity.ErrInvalid},
		{"expired", jose.EdDSA, sign(t, jose.EdDSA, edPrivate, change(func(c *jwt.Claims) { c.Expiry = jwt.NewNumericDate(now.Add(-time.Minute)) })), identity.ErrInvalid},
		{"never expires", jose.EdDSA, sign(t, jose.EdDSA, edPrivate, change(func(c *jwt.Claims) { c.Expiry = nil })), identity.ErrInvalid},
		{"expires late", jose.EdDSA, sign(t, jose.EdDSA, edPrivate, change(func(c *jwt.Claims) { c.Expiry = jwt.NewNumericDate(now.Add(time.Hour)) })), identity.ErrInvalid},
		{"not valid yet", jose.EdDSA, sign(t, jose.EdDSA, edPrivate, change(func(c *jwt.Claims) { c.NotBefore = jwt.NewNumericDate(now.Add(time.Minute)) })), identity.ErrInvalid},
	} {
		r := httptest.NewRequest("POST", "/api/session", nil)
		r.Header.Set("Authorization", "Bearer "+c.token)
		b, err := jwts[c.alg].Buyer(r)
		if !errors.Is(err, c.want) || c.want == nil && (b.Guest || b.Proof != identity.ByJWT || len(b.ID) != 64) {
			t.Errorf("%s: %+v, %v, want %v", c.name, b, err, c.want)
		}
	}
	// The same subject is the same buyer, and the cookie is read, too.
	r := httptest.NewRequest("POST", "/", nil)
	r.Header.Set("Cookie", "shop="+good)
	one, err := jwts[jose.EdDSA].Buyer(r)
	if err != nil || len(one.ID) != 64 {
		t.Errorf("by a cookie: %+v, %v", one, err)
	}
	other := httptest.NewRequest("POST", "/", nil)
	other.Header.Set("Authorization", "Bearer "+sign(t, jose.EdDSA, edPrivate, change(func(c *jwt.Claims) { c.Subject = "bob" })))
	if two, err := jwts[jose.EdDSA].Buyer(other); err != nil || two.ID == one.ID {
		t.Errorf("another subject: %+v, %v, want another ID than %s", two, err, one.ID)
	}
	// Headers that only name a user, and an old cookie, are nothing.
	r = httptest.NewRequest("POST", "/", nil)
	r.Header.Set("X-User-Id", "ann")
	r.Header.Set("Cookie", "shop="+sign(t, jose.EdDSA, edPrivate, change(func(c *jwt.Claims) { c.Expiry = jwt.NewNumericDate(now.Add(-time.Hour)) })))
	if b, err := jwts[jose.EdDSA].Buyer(r); !errors.Is(err, identity.ErrNone) {
		t.Errorf("without credentials: %+v, %v, want ErrNone", b, err)
	}
}

// TestJWTConfig has one clear error for each setting that is not accepted.
func TestJWTConfig(t *testing.T) {
	edPublic, _, _ := ed25519.GenerateKey(rand.Reader)
	p384, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	weak, _ := rsa.GenerateKey(rand.Reader, 2048)
	for _, c := range []struct {
		c    identity.JWTConfig
		want string
	}{
		{identity.JWTConfig{Algorithm: "RS256", Issuer: issuer, Key: pemOf(t, &weak.PublicKey)}, `algorithm: got "RS256", want EdDSA, ES256 or HS256`},
		{identity.JWTConfig{Algorithm: "none", Issuer: issuer}, `algorithm: got "none"`},
		{identity.JWTConfig{Algorithm: "EdDSA", Key: pemOf(t, edPublic)}, "issuer: got none"},
		{identity.JWTConfig{Algorithm: "EdDSA", Issuer: issuer, Key: []byte("x")}, "key: want a public key in PEM for EdDSA"},
		{identity.JWTConfig{Algorithm: "ES256", Issuer: issuer, Key: pemOf(t, edPublic)}, "key: got ed25519.PublicKey, want one for ES256"},
		{identity.JWTConfig{Algorithm: "ES256", Issuer: issuer, Key: pemOf(t, &p384.PublicKey)}, "want one for ES256"},
		{identity.JWTConfig{Algorithm: "HS256", Issuer: issuer, Key: []byte("short")}, "key: got 5 bytes, want a secret of at least 32"},
		{identity.JWTConfig{Algorithm: "HS256", Issuer: issuer, Key: make([]byte, 32), Cookie: "a b"}, `cookie: got "a b"`},
	} {
		if _, err := identity.NewJWT(c.c); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.c, err, c.want)
		}
	}
}
