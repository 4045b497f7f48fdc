package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/floodweir/weir/policy"
)

// TestKeyValues checks that the values of the keys of a policy are those of the request.
func TestKeyValues(t *testing.T) {
	p := mustNew(t, policy.Config{Key: []policy.KeyPart{part(policy.Header, "X-A"), part(policy.Header, "X-B")}})
	for _, values := range [][]string{{"a", "b"}, {"", ""}, {"", "b"}, {"|-", "3:abc|"}, {"-", "#"}, {"日本", "10:"}} {
		key, _ := keyOf(t, p, request{header: map[string][]string{"X-A": {values[0]}, "X-B": {values[1]}}})
		if got, ok := policy.KeyValues(key); !ok || !slices.Equal(got, values) {
			t.Errorf("KeyValues(%q) = %q, %v, want %q", key, got, ok, values)
		}
	}
	long, _ := keyOf(t, p, request{header: map[string][]string{"X-A": {strings.Repeat("a", 300)}}})
	for _, key := range []string{long, "", "p", "p|", "p|3:ab", "p|2:abc", "p|02:ab", "p|+2:ab", "p|0:", "p|-|", "p|--", "p|1:a|", "p|99999999999999999999:a"} {
		if got, ok := policy.KeyValues(key); ok {
			t.Errorf("KeyValues(%q) = %q, want none", key, got)
		}
	}
}

// TestKeyID checks that the name of a key depends on its values only.
func TestKeyID(t *testing.T) {
	id := policy.KeyID("login|7:1.2.3.4")
	if len(id) != 12 || id != policy.KeyID("login~candidate|7:1.2.3.4") || id == policy.KeyID("login|7:1.2.3.5") {
		t.Errorf("KeyID = %q, want 12 bytes that depend on the address only", id)
	}
}

// FuzzKeyValues checks that no key panics, and that the values fit into the key.
func FuzzKeyValues(f *testing.F) {
	for _, key := range []string{"p|7:1.2.3.4", "p|-|3:abc", "p|#abc", "p|9223372036854775807:a"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		values, ok := policy.KeyValues(key)
		if n := len(strings.Join(values, "")); ok == (len(values) == 0) || n > len(key) {
			t.Errorf("KeyValues(%q) = %q, %v", key, values, ok)
		}
	})
}
