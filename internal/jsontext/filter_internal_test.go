package jsontext

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzFilter checks that the filtered text is JSON with the same members, without arrays and the
// ends of long strings, for any division into pieces.
func FuzzFilter(f *testing.F) {
	for _, text := range []string{
		`{"a":[1,"]",{"b":[]}],"c":"\"[","d":{"e":[[]]}}`, `"` + strings.Repeat(`\u00e9\\é`, 900) + `"`, `[[`, `"\`, `{"a":]}`, `"\u"`,
	} {
		f.Add(text, 3)
	}
	f.Fuzz(func(t *testing.T, text string, piece int) {
		piece = max(1, min(piece, 1<<10))
		var s, whole Filter
		var got []byte
		for rest := text; rest != ""; {
			n := min(piece, len(rest))
			got, rest = s.Append(got, []byte(rest[:n])), rest[n:]
		}
		if once := whole.Append(nil, []byte(text)); string(once) != string(got) || len(got) > len(text) {
			t.Fatalf("%q at once is %q, in pieces of %d %q", text, once, piece, got)
		}
		var want, left any
		if json.Unmarshal([]byte(text), &want) != nil {
			return
		}
		if err := json.Unmarshal(got, &left); err != nil {
			t.Fatalf("%q is left of %q: %v", got, text, err)
		}
		same(t, want, left)
	})
}

// same reports whether left is the value without arrays and the ends of long strings.
func same(t *testing.T, want, left any) {
	t.Helper()
	switch w := want.(type) {
	case map[string]any:
		l, ok := left.(map[string]any)
		if !ok || len(l) > len(w) {
			t.Fatalf("%v is left of %v", left, want)
		}
		for name, value := range w {
			if len(name) <= maxString/6 {
				same(t, value, l[name])
			}
		}
	case []any:
		if l, ok := left.([]any); !ok || len(l) != 0 {
			t.Fatalf("%v is left of an array", left)
		}
	case string:
		if l, ok := left.(string); !ok || len(w) <= maxString/6 && l != w || len(l) > len(w)+3 {
			t.Fatalf("%q is left of %q", left, w)
		}
	default:
		if left != want {
			t.Fatalf("%v is left of %v", left, want)
		}
	}
}
