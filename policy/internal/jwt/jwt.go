// Package jwt reads claims of JSON Web Tokens (RFC 7519). It does not verify tokens.
package jwt

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/floodweir/weir/internal/jsontext"
)

// maxToken is the largest token in bytes.
const maxToken = 16 << 10

// A Claim locates a value in a token.
type Claim struct {
	Name   string // a claim or, if there is none of that name, a path of members joined by dots
	Header string // the header of the token, canonical
	Bearer bool   // a scheme precedes the token in the header
}

// Read returns the text of the claim in the value of a header. It returns "" if there is no
// such claim or the token is malformed.
func (c *Claim) Read(value string) string {
	if c.Bearer {
		scheme, token, ok := strings.Cut(strings.ReplaceAll(value, "\t", " "), " ")
		if !ok || !strings.EqualFold(scheme, "Bearer") {
			return ""
		}
		value = strings.TrimLeft(token, " ")
	}
	payload, ok := c.payload(value)
	if !ok {
		return ""
	}
	claims, ok := object(payload)
	if !ok {
		return ""
	}
	if raw, ok := claims[c.Name]; ok {
		return jsontext.Scalar(raw)
	}
	path := strings.Split(c.Name, ".")
	for _, name := range path[:len(path)-1] {
		if claims, ok = object(claims[name]); !ok {
			return ""
		}
	}
	return jsontext.Scalar(claims[path[len(path)-1]])
}

// payload returns the JSON of a token, which is between its two dots, or of a payload alone.
// It accepts padding, which some proxies add although the standard has none.
func (c *Claim) payload(token string) ([]byte, bool) {
	foreign := func(r rune) bool { return r != '.' && r != '=' && !isBase64(r) }
	if len(token) > maxToken || strings.ContainsFunc(token, foreign) {
		return nil, false
	}
	if header, rest, whole := strings.Cut(token, "."); whole {
		payload, signature, ok := strings.Cut(rest, ".")
		if !ok || header == "" || signature == "" || strings.Contains(signature, ".") {
			return nil, false
		}
		token = payload
	} else if c.Bearer {
		return nil, false
	}
	token = strings.TrimSuffix(strings.TrimSuffix(token, "="), "=")
	b, err := base64.RawURLEncoding.DecodeString(token)
	return b, err == nil
}

// isBase64 reports whether r is in the base64 alphabet for URLs.
func isBase64(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
}

// object returns the members of a JSON object.
func object(raw []byte) (members map[string]json.RawMessage, ok bool) {
	err := json.Unmarshal(raw, &members)
	return members, err == nil && members != nil
}
