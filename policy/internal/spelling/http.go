package spelling

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// IsToken reports whether s is a token of HTTP (RFC 9110, section 5.6.2).
func IsToken(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != "" && len(s) <= MaxText
}

// IsText reports whether s can be a name or a constant.
func IsText(s string) bool {
	return s != "" && len(s) <= MaxText && utf8.ValidString(s) && !HasControl(s)
}

// IsTarget reports whether s can be the value of Location. Browsers read "//host" and "/\host"
// as other hosts.
func IsTarget(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] >= 0x7f || s[i] == '\\' || s[i] == '"' || s[i] == '<' || s[i] == '>' {
			return false
		}
	}
	u, err := url.Parse(s)
	if err != nil || len(s) > MaxText {
		return false
	}
	if s[0] == '/' {
		return !strings.HasPrefix(s, "//")
	}
	return (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil
}

// IsReserved reports whether a policy may not set a header of a denial.
func IsReserved(name string) bool {
	switch name {
	case "Connection", "Content-Length", "Content-Type", "Date", "Keep-Alive", "Retry-After",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return strings.HasPrefix(name, "Proxy-") || strings.HasPrefix(name, "Ratelimit") || strings.HasPrefix(name, "X-Ratelimit")
}

// IsFieldValue reports whether s can be the value of a header.
func IsFieldValue(s string) bool {
	return len(s) <= MaxText && s == strings.TrimSpace(s) && !HasControl(strings.ReplaceAll(s, "\t", " "))
}

// Credentials normalizes a value of Authorization, whose scheme is case-insensitive and ends
// at a space or tab (RFC 9110, section 11.4). Otherwise "Bearer" and "bearer" would have
// different buckets. Values of other headers are unchanged.
func Credentials(header, value string) string {
	if !IsCredentials(header) {
		return value
	}
	i := strings.IndexAny(value, " \t")
	if i < 0 {
		return value
	}
	return strings.ToLower(value[:i]) + " " + strings.TrimLeft(value[i:], " \t")
}

// IsCredentials reports whether the value of a header begins with a scheme.
func IsCredentials(header string) bool {
	return header == "Authorization" || header == "Proxy-Authorization"
}

// BodyText returns the normal form of a value in the body of a request: without space and control
// characters around it, and in lower case. Servers may treat such values as equal.
func BodyText(value string) string {
	return strings.ToLower(strings.TrimFunc(value, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }))
}
