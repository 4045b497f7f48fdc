package guard_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/policy"
)

type id string

func TestKey(t *testing.T) {
	for _, tc := range []struct {
		parts []any
		want  string
	}{
		{nil, ""},
		{[]any{""}, ""},
		{[]any{"a"}, "a"},
		{[]any{`a,b\`}, `a,b\`},
		{[]any{"a", "b"}, "a,b"},
		{[]any{"a,b", "c"}, `a\,b,c`},
		{[]any{"a", "b,c"}, `a,b\,c`},
		{[]any{`a\`, "b"}, `a\\,b`},
		{[]any{"a", `\,b`}, `a,\\\,b`},
		{[]any{"", ""}, ","},
		{[]any{1, int64(-2), uint8(3), true, 1.5, []byte("x"), id("y")}, "1,-2,3,true,1.5,x,y"},
		{[]any{netip.MustParseAddr("::1"), time.Second, errors.New("e"), nil}, "::1,1s,e,<nil>"},
		{[]any{(*netip.Addr)(nil)}, "<nil>"},
	} {
		if got := guard.Key(tc.parts...); got != tc.want {
			t.Errorf("Key(%#v) = %q, want %q", tc.parts, got, tc.want)
		}
	}
}

// FuzzKey checks that what the parts were can be read from a key of more than one.
func FuzzKey(f *testing.F) {
	f.Add("a", "b", "c")
	f.Add(",", `\`, "")
	f.Add(`a\,`, `,\\`, `\,,`)
	f.Fuzz(func(t *testing.T, a, b, c string) {
		want := []string{a, b, c}
		var got []string
		var part strings.Builder
		rest := guard.Key(a, b, c)
		for i := 0; i < len(rest); i++ {
			switch rest[i] {
			case '\\':
				i++
				part.WriteByte(rest[i])
			case ',':
				got = append(got, part.String())
				part.Reset()
			default:
				part.WriteByte(rest[i])
			}
		}
		if got = append(got, part.String()); !slices.Equal(got, want) {
			t.Errorf("Key(%q) = %q, which says %q", want, rest, got)
		}
		if guard.Key(a) != a {
			t.Errorf("Key(%q) = %q", a, guard.Key(a))
		}
	})
}

func TestName(t *testing.T) {
	long := "example.com/a/very/long/path/that/goes/on/and/on/and/on/until/it/ends"
	for _, tc := range []struct{ path, receiver, function, want string }{
		{"example.com/shop", "", "GetID", "example.com.shop.GetID"},
		{"example.com/shop", "*Service", "GetID", "example.com.shop.Service.GetID"},
		{"example.com/shop", "(*Service)", "GetID", "example.com.shop.Service.GetID"},
		{"example.com/shop", "Service[K, V]", "GetID", "example.com.shop.Service.GetID"},
		{"main", "", "run", "main.run"},
		{"", "", "run", "run"},
		{long, "*Service", "GetID", "that.goes.on.and.on.and.on.until.it.ends.Service.GetID-ab48a182"},
		{"example.com/shop", "", "Größe", "example.com.shop.Gr__e-f05e67a4"},
		{"example.com/~shop", "", "f", "example.com._shop.f-d9e43cc2"},
		{"", "", "_", "function-d2e2adf7"},
		{"", "", "", "function-e3b0c442"},
		{"", "", "system", "system-bbc5e661"},
	} {
		if got := guard.Name(tc.path, tc.receiver, tc.function); got != tc.want {
			t.Errorf("Name(%q, %q, %q) = %q, want %q", tc.path, tc.receiver, tc.function, got, tc.want)
		}
	}
}

// FuzzName checks that every name has the form that rules have, and different functions have
// different names.
func FuzzName(f *testing.F) {
	f.Add("example.com/shop", "*Service", "GetID")
	f.Add(strings.Repeat("a/", 60), "T[int]", "F")
	f.Add("", "\xff", "_")
	f.Fuzz(func(t *testing.T, path, receiver, function string) {
		name := guard.Name(path, receiver, function)
		if _, err := policy.New(policy.Config{Name: name, Key: []policy.KeyPart{guard.KeyPart()}, Limits: limits("1/s")}); err != nil {
			t.Fatal(err)
		}
		if other := guard.Name(path, receiver, function+"ü"); other == name {
			t.Errorf("two functions are called %q", name)
		}
	})
}
