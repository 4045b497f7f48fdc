package keyid_test

import (
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/keyid"
	"github.com/floodweir/weir/policy"
)

// TestID checks that an ID depends on the values of the key and on the secret, and on nothing else.
func TestID(t *testing.T) {
	one, two := keyid.New(), keyid.New()
	const key = "login|11:203.0.113.9"
	if one.Secret() == two.Secret() || len(one.Secret()) < 26 || one.ID(key) == two.ID(key) {
		t.Errorf("secrets %q and %q, want two of 128 bits and other IDs", one.Secret(), two.Secret())
	}
	two.Use(one.Secret())
	id := one.ID(key)
	if got := two.ID("api|11:203.0.113.9"); got != id || two.FromHash(policy.KeyID(key)) != id {
		t.Errorf("IDs %q and %q with one secret, want the same", got, id)
	}
	if len(id) != 12 || id == policy.KeyID(key) || id == one.ID("login|11:203.0.113.8") || one.FromHash("") != "" {
		t.Errorf("ID = %q, want 12 characters that are not the hash, and none for no key", id)
	}
}
