package warning

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	"github.com/floodweir/weir/policy"
)

// values returns the values of a key of the store, one for each part of the policy's key; "" for
// none. A hash replaces credentials. A key that is a hash itself is returned as it is.
func values(parts []policy.KeyPart, key string) (all []string) {
	_, rest, _ := strings.Cut(key, "|")
	for i := 0; i < len(parts) && rest != ""; i++ {
		length, tail, ok := strings.Cut(rest, ":")
		n, err := strconv.Atoi(length)
		switch {
		case strings.HasPrefix(rest, "-"):
			all, rest = append(all, ""), strings.TrimPrefix(rest[1:], "|")
			continue
		case !ok || err != nil || n > len(tail):
			return []string{rest}
		}
		value := tail[:n]
		if credential(&parts[i]) {
			value = fmt.Sprintf("sha256:%.16x", sha256.Sum256([]byte(value)))
		}
		all, rest = append(all, value), strings.TrimPrefix(tail[n:], "|")
	}
	return all
}

// credential reports whether the values of a part are secrets of clients.
func credential(p *policy.KeyPart) bool {
	if p.Source == policy.Cookie {
		return true
	}
	if p.Source != policy.Header && p.Source != policy.Query {
		return false
	}
	name := strings.ToLower(p.Name)
	for _, word := range []string{"authorization", "cookie", "key", "token", "secret", "password", "session"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
