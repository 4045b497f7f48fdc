// Package jwt reads claims of JSON Web Tokens (RFC 7519). It does not verify tokens.
package jwt

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
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
		return scalar(raw)
	}
	path := strings.Split(c.Name, ".")
	for _, name := range path[:len(path)-1] {
		if claims, ok = object(claims[name]); !ok {
			return ""
		}
	}
	return scalar(claims[path[len(path)-1]])
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

// scalar returns the text of a JSON string, number or boolean, and "" for other values.
func scalar(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	switch c := raw[0]; {
	case c == '"':
		var s string
		if json.Unmarshal(raw, &s) != nil || strings.ContainsRune(s, utf8.RuneError) {
			return "" // all halves of surrogate pairs decode to the same character
		}
		return s
	case c == 't' || c == 'f':
		return string(raw)
	case c == '-' || c >= '0' && c <= '9':
		return number(string(raw))
	}
	return ""
}

// number returns the canonical form of a JSON number: decimal, or with an exponent if that
// is much shorter.
func number(text string) string {
	digits, negative := strings.CutPrefix(text, "-")
	exponent := 0
	if i := strings.IndexAny(digits, "eE"); i >= 0 {
		e, err := strconv.Atoi(digits[i+1:])
		if err != nil || e > 1<<30 || e < -1<<30 {
			return ""
		}
		digits, exponent = digits[:i], e
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	exponent -= len(fraction)
	digits = strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(trimmed)
	switch {
	case trimmed == "":
		return "0"
	case exponent >= 0 && len(trimmed)+exponent <= 21:
		trimmed += strings.Repeat("0", exponent)
	case exponent < 0 && exponent >= -21:
		trimmed = strings.Repeat("0", max(0, 1-exponent-len(trimmed))) + trimmed
		point := len(trimmed) + exponent
		trimmed = trimmed[:point] + "." + trimmed[point:]
	default:
		trimmed += "e" + strconv.Itoa(exponent)
	}
	if negative {
		return "-" + trimmed
	}
	return trimmed
}
