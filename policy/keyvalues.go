package policy

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
)

// KeyValues returns the values of a key, such as Charge.Key: one for each part of the key of its
// policy, as in Override.Key, and "" for the anonymous part. ok is false for a text that is no
// key, and for a long key, of which only a hash is known.
func KeyValues(key string) (values []string, ok bool) {
	_, rest, found := strings.Cut(key, "|")
	for found {
		if tail, anonymous := strings.CutPrefix(rest, "-"); anonymous {
			values, rest = append(values, ""), tail
		} else {
			length, tail, _ := strings.Cut(rest, ":")
			n, err := strconv.Atoi(length)
			if err != nil || n < 1 || n > len(tail) || strconv.Itoa(n) != length {
				return nil, false
			}
			values, rest = append(values, tail[:n]), tail[n:]
		}
		if rest == "" {
			return values, true
		}
		rest, found = strings.CutPrefix(rest, "|")
	}
	return nil, false
}

// KeyID returns a short name for a key, of 12 letters, digits, '-' and '_'. It is a hash of the
// values, so it does not depend on the policy, and is the same on all nodes. It does not hide
// values that can be guessed, such as addresses.
func KeyID(key string) string {
	_, values, _ := strings.Cut(key, "|")
	sum := sha256.Sum256([]byte(values))
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}

// IsSecret reports whether the values of k are credentials of clients, by its source and name.
// Show a hash of them instead.
func (k KeyPart) IsSecret() bool {
	switch k.Source {
	case Cookie:
		return true
	case Header, Query:
		name := strings.ToLower(k.Name)
		for _, word := range []string{"authorization", "cookie", "key", "token", "secret", "password", "session"} {
			if strings.Contains(name, word) {
				return true
			}
		}
	}
	return false
}
