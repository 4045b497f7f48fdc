package wire

import (
	"net/url"
	"strings"
)

// IsCanonicalPath reports whether the path of u has no escapes, no dot segments and no empty
// segments. Any other spelling is refused.
func IsCanonicalPath(u *url.URL) bool {
	p := u.Path
	if u.RawPath != "" || p == "" || p[0] != '/' || strings.Contains(p, "//") {
		return false
	}
	for part := range strings.SplitSeq(p[1:], "/") {
		if part == "." || part == ".." {
			return false
		}
	}
	return !strings.ContainsAny(p, ";\\\x00")
}

// IsSaleID reports whether id is 1 to 64 lower-case letters and digits.
func IsSaleID(id string) bool {
	if id == "" || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		if c := id[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// IsBase64 reports whether s has only characters of base64url.
func IsBase64(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}
