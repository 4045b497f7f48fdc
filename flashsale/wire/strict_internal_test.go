package wire

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzDecode compares the reader with the standard library's: what it accepts is JSON and
// says the same.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"token":"a"}`, `{"token":"a\u0041\n","n":-12}`, `{}`, ` { "n" : 0 } `, `{"n":1e3}`, `{"yes":true}`, `{"yes":false,"n":1}`, `{"yes":truer}`, `{"token":"\`, `{"token":"a",}`, `{"n":--1}`,
		`{"token":"\ud800"}`, `{"n":9223372036854775808}`, "{\"token\":\"\x7f\"}", `{"token":"a"}}`, `{"token":`, `{"n": }`, `{"":1}`, `{"token":"a""n":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var token string
		var n int64
		var yes bool
		if f := Decode(data, []Member{{Name: "token", Text: &token}, {Name: "n", Num: &n}, {Name: "yes", Bool: &yes}}); f != nil {
			if f.Detail == "" || len(f.Detail) > 400 {
				t.Errorf("%q: the detail is %q", data, f.Detail)
			}
			return
		}
		var want map[string]any
		d := json.NewDecoder(strings.NewReader(string(data)))
		d.UseNumber()
		if err := d.Decode(&want); err != nil {
			t.Fatalf("%q is accepted and no JSON: %v", data, err)
		}
		if got, _ := want["token"].(string); got != token {
			t.Errorf("%q: token %q, want %q", data, token, got)
		}
		if got, _ := want["yes"].(bool); got != yes {
			t.Errorf("%q: yes %v, want %v", data, yes, got)
		}
		if len(want) > 3 {
			t.Errorf("%q: more members than known", data)
		}
	})
}
