package policy

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxToken is the longest token that is read, in bytes.
const maxToken = 16 << 10

// A claim is where a value stands in a JSON Web Token (RFC 7519).
type claim struct {
	name   string
	header string // canonical
	bearer bool   // the header has a scheme before the token
}

// claim is the claim that k names.
func (k KeyPart) claim() claim {
	name, header := k.Name, "Authorization"
	if i := strings.LastIndexByte(name, '@'); i >= 0 {
		name, header = name[:i], canonical(name[i+1:])
	}
	return claim{name, header, isCredentials(header)}
}

// read is the text of the claim in a header's value, or "" if there is none or
// anything about the token is wrong.
func (c *claim) read(value string) string {
	if c.bearer {
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
	if raw, ok := claims[c.name]; ok {
		return scalar(raw)
	}
	path := strings.Split(c.name, ".")
	for _, name := range path[:len(path)-1] {
		if claims, ok = object(claims[name]); !ok {
			return ""
		}
	}
	return scalar(claims[path[len(path)-1]])
}

// payload is the JSON in a token: what stands between its two dots, or all of a
// payload alone. Padding, which the standard has not, is what some proxies add.
func (c *claim) payload(token string) ([]byte, bool) {
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
	} else if c.bearer {
		return nil, false
	}
	token = strings.TrimSuffix(strings.TrimSuffix(token, "="), "=")
	b, err := base64.RawURLEncoding.DecodeString(token)
	return b, err == nil
}

// isBase64 reports whether r is of the alphabet that is safe in URLs.
func isBase64(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
}

// object is the members of a JSON object.
func object(raw []byte) (members map[string]json.RawMessage, ok bool) {
	err := json.Unmarshal(raw, &members)
	return members, err == nil && members != nil
}

// scalar is the text of a JSON text, number or boolean, or "" for all else.
func scalar(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	switch c := raw[0]; {
	case c == '"':
		var s string
		if json.Unmarshal(raw, &s) != nil || strings.ContainsRune(s, utf8.RuneError) {
			return "" // half of a surrogate pair is no text, and all of them look alike
		}
		return s
	case c == 't' || c == 'f':
		return string(raw)
	case c == '-' || c >= '0' && c <= '9':
		return number(string(raw))
	}
	return ""
}

// number is the one spelling of a JSON number: as a decimal, or with an exponent if
// that would be much longer.
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
