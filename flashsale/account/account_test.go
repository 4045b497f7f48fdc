package account_test

import (
	"strings"
	"testing"

	"github.com/floodweir/weir/flashsale/account"
)

func TestPasswords(t *testing.T) {
	for _, p := range []string{"", "1234567", strings.Repeat("x", 257), "correct horse\xff"} {
		if _, err := account.HashPassword(p); err == nil {
			t.Errorf("the password %q is accepted", p)
		}
	}
	one, err := account.HashPassword("12345678")
	if err != nil {
		t.Fatal(err)
	}
	two, err := account.HashPassword("12345678")
	if err != nil || one == two || !strings.HasPrefix(one, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("hashes %q and %q, %v", one, two, err)
	}
}

func TestIsPassword(t *testing.T) {
	password := account.NewPassword()
	hash, err := account.HashPassword(password)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		hash, password string
		right, fails   bool
	}{
		{hash, password, true, false}, {hash, password + "x", false, false}, {hash, "", false, false},
		{"", "", false, false}, {"", password, false, false}, {"x", password, false, true}, {strings.Replace(hash, "m=19456", "m=999999", 1), password, false, true},
	} {
		if right, err := account.IsPassword(c.hash, c.password); right != c.right || (err != nil) != c.fails {
			t.Errorf("IsPassword(%q, %q) = %v, %v", c.hash, c.password, right, err)
		}
	}
}

// TestRoles checks that each role includes those before it, and an unknown one nothing.
func TestRoles(t *testing.T) {
	for i, have := range account.Roles() {
		for j, needed := range account.Roles() {
			if got := have.Includes(needed); got != (i >= j) {
				t.Errorf("%s includes %s: %v", have, needed, got)
			}
		}
		for _, unknown := range []account.Role{"", "root"} {
			if unknown.Includes(have) || have.Includes(unknown) || unknown.Includes(unknown) {
				t.Errorf("%q includes or is included in %s", unknown, have)
			}
		}
	}
}

func TestActor(t *testing.T) {
	ctx := account.With(t.Context(), account.Account{Merchant: "shop", Name: "li"})
	for who, want := range map[string]string{"shop": "li", "other": "other", "payments": "payments"} {
		if got := account.Actor(ctx, who); got != want {
			t.Errorf("Actor(%s) = %s, want %s", who, got, want)
		}
	}
	if got := account.Actor(t.Context(), "shop"); got != "shop" {
		t.Errorf("without an account: %s, want shop", got)
	}
}
