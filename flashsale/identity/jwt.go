package identity

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	// Audience is the audience that every token names.
	Audience = "flashsale"

	// MaxLifetime bounds the time until a token expires.
	MaxLifetime = 15 * time.Minute

	maxToken = 4096 // bytes
	leeway   = 10 * time.Second
)

// JWTConfig configures a JWT. Algorithm, Issuer and Key are required.
type JWTConfig struct {
	// Algorithm is EdDSA, ES256 or HS256. Tokens with another one are refused.
	Algorithm string

	// Issuer is the claim iss.
	Issuer string

	// Key is the public key in PEM for EdDSA and ES256, or a secret of at least 32 bytes for
	// HS256.
	Key []byte

	// Cookie is the name of a cookie with the token. Without one, only the header
	// Authorization: Bearer is read.
	Cookie string

	Clock func() time.Time // time.Now if nil
}

// JWT implements Buyers by tokens that the shop signs. The claims are iss, sub, aud (flashsale)
// and exp, at most 15 minutes ahead. It is safe for concurrent use.
type JWT struct {
	c   JWTConfig
	alg jose.SignatureAlgorithm
	key any
}

// NewJWT returns a JWT.
func NewJWT(c JWTConfig) (*JWT, error) {
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Issuer == "" {
		return nil, errors.New("identity: issuer: got none, want the claim iss of the shop's tokens")
	}
	if c.Cookie != "" && (&http.Cookie{Name: c.Cookie, Value: "x"}).Valid() != nil {
		return nil, fmt.Errorf("identity: cookie: got %.60q, want the name of a cookie", c.Cookie)
	}
	j := &JWT{c: c, alg: jose.SignatureAlgorithm(c.Algorithm)}
	switch j.alg {
	case jose.EdDSA, jose.ES256:
		block, _ := pem.Decode(c.Key)
		if block == nil {
			return nil, fmt.Errorf("identity: key: want a public key in PEM for %s", j.alg)
		}
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("identity: key: got PEM of %.40q, want a PUBLIC KEY for %s: %w", block.Type, j.alg, err)
		}
		ec, isEC := key.(*ecdsa.PublicKey)
		_, isEd := key.(ed25519.PublicKey)
		if j.alg == jose.EdDSA && !isEd || j.alg == jose.ES256 && (!isEC || ec.Curve != elliptic.P256()) {
			return nil, fmt.Errorf("identity: key: got %T, want one for %s", key, j.alg)
		}
		j.key = key
	case jose.HS256:
		if len(c.Key) < 32 {
			return nil, fmt.Errorf("identity: key: got %d bytes, want a secret of at least 32", len(c.Key))
		}
		j.key = c.Key
	default:
		return nil, fmt.Errorf("identity: algorithm: got %.40q, want EdDSA, ES256 or HS256", c.Algorithm)
	}
	return j, nil
}

// Buyer implements Buyers. An expired token in a cookie is ErrNone, because browsers keep old
// cookies; in the header it is ErrInvalid.
func (j *JWT) Buyer(r *http.Request) (Buyer, error) {
	text, inHeader := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !inHeader && j.c.Cookie != "" {
		if c, err := r.Cookie(j.c.Cookie); err == nil {
			text = c.Value
		}
	}
	if text == "" || len(r.Header.Values("Authorization")) > 1 {
		return Buyer{}, ErrNone
	}
	subject, err := j.verify(text)
	if errors.Is(err, jwt.ErrExpired) && !inHeader {
		return Buyer{}, ErrNone
	}
	if err != nil {
		return Buyer{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return Buyer{ID: userID(j.c.Issuer, subject), Proof: ByJWT}, nil
}

// verify returns the subject of a token.
func (j *JWT) verify(text string) (string, error) {
	if len(text) > maxToken {
		return "", fmt.Errorf("token: got %d bytes, want at most %d", len(text), maxToken)
	}
	token, err := jwt.ParseSigned(text, []jose.SignatureAlgorithm{j.alg})
	if err != nil {
		return "", fmt.Errorf("token: want a JWT signed with %s", j.alg)
	}
	var c jwt.Claims
	if err := token.Claims(j.key, &c); err != nil {
		return "", errors.New("token: the signature does not match")
	}
	now := j.c.Clock()
	if err := c.ValidateWithLeeway(jwt.Expected{Issuer: j.c.Issuer, AnyAudience: jwt.Audience{Audience}, Time: now}, leeway); err != nil {
		return "", err
	}
	switch {
	case c.Expiry == nil:
		return "", errors.New("token: exp: got none, want a time")
	case c.Expiry.Time().After(now.Add(MaxLifetime + leeway)):
		return "", fmt.Errorf("token: exp: want at most %v ahead", MaxLifetime)
	case c.Subject == "" || len(c.Subject) > 255:
		return "", fmt.Errorf("token: sub: got %d bytes, want 1 to 255", len(c.Subject))
	}
	return c.Subject, nil
}
