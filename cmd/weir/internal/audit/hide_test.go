package audit_test

import (
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/audit"
)

// TestShown checks that no text of an entry for the role read shows a part of its key, and that other text stays.
func TestShown(t *testing.T) {
	l, _ := newLog(t)
	for _, tc := range []struct {
		name, text, want string
		key              []string
	}{
		{"address", "attack of 203.0.113.9, see ticket", "attack of [key], see ticket", []string{"203.0.113.9"}},
		{"inside a word", "ip203.0.113.9x", "ip[key]x", []string{"203.0.113.9"}},
		{"other case", "asked by Ana@Example.com", "asked by [key]", []string{"ana@example.com"}},
		{"quoted", `got "a\tb c"`, `got "[key]"`, []string{"a\tb c"}},
		{"pattern", "a.b and axb", "[key] and axb", []string{"a.b"}},
		{"several parts", "GET by tenant-7", "[key] by [key]", []string{"tenant-7", "GET"}},
		{"part in a part", "user-12 and user-1", "[key] and [key]", []string{"user-1", "user-12"}},
		{"short part", "user 7 to 70/s until 17:07", "user [key] to 70/s until 17:07", []string{"7"}},
		{"short part without letters", "a*b", "a[key]b", []string{"*"}},
		{"cut in the key", "frozen by mei: 203.0.1…", "frozen by mei: [key]…", []string{"203.0.113.9"}},
		{"cut after another text", "frozen by mei…", "frozen by mei…", []string{"203.0.113.9"}},
		{"not UTF-8", "saw a\uFFFDbcd", "saw [key]", []string{"a\xffbcd"}},
		{"anonymous", "no address", "no address", []string{""}},
		{"no key", "version 7", "version 7", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := audit.Entry{Key: tc.key, Reason: tc.text, From: tc.text, To: tc.text, Error: tc.text, KeyID: "id"}
			got := l.Shown(e, false)
			if got.Key != nil || got.KeyID != "id" {
				t.Errorf("key %q, id %q, want none and id", got.Key, got.KeyID)
			}
			for _, text := range []string{got.Reason, got.From, got.To, got.Error} {
				if text != tc.want {
					t.Errorf("%q, want %q", text, tc.want)
				}
			}
			if e.Reason != tc.text || len(tc.key) != len(e.Key) {
				t.Error("the entry itself has changed")
			}
		})
	}
	long := audit.Entry{Key: []string{strings.Repeat("k", 2000)}, Reason: strings.Repeat("k", 1000)}
	if got := l.Shown(long, false); len(got.Reason) != 1000 {
		t.Errorf("a text shorter than the key has %d bytes, want 1000", len(got.Reason))
	}
}
