package edge_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/floodweir/weir/e2e/nginxtest"
)

var updateLower = flag.Bool("update-lower", false, "write the table of edge/nginx/weir/lowercase.lua")

// lowerRanges returns the characters that have a lower case, in the form of lowercase.lua.
func lowerRanges() string {
	type span struct{ from, to, step, delta rune }
	var spans []span
	for r := rune(0); r <= unicode.MaxRune; r++ {
		delta := unicode.ToLower(r) - r
		if delta == 0 {
			continue
		}
		if n := len(spans); n > 0 {
			s := &spans[n-1]
			gap := r - s.to
			if s.delta == delta && gap <= 2 && (s.from == s.to || gap == s.step) {
				s.to, s.step = r, gap
				continue
			}
		}
		spans = append(spans, span{r, r, 1, delta})
	}
	var b strings.Builder
	b.WriteString("local ranges = {")
	for i, s := range spans {
		if i%6 == 0 {
			b.WriteString("\n  ")
		} else {
			b.WriteString(" ")
		}
		fmt.Fprintf(&b, "%d, %d, %d, %d,", s.from, s.to, s.step, s.delta)
	}
	b.WriteString("\n}\n")
	return b.String()
}

// TestLowerTable compares the table in lowercase.lua with package unicode.
func TestLowerTable(t *testing.T) {
	t.Parallel()
	file := filepath.Join(nginxtest.Edge(t), "weir", "lowercase.lua")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), "-- ranges: begin\n")
	table, after, ok2 := strings.Cut(rest, "-- ranges: end\n")
	if !ok || !ok2 {
		t.Fatal("lowercase.lua has no marks around its table")
	}
	want := lowerRanges()
	if *updateLower {
		if err := os.WriteFile(file, []byte(before+"-- ranges: begin\n"+want+"-- ranges: end\n"+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != want {
		t.Error("the table in lowercase.lua is not that of this Go: run go test -run LowerTable -update-lower")
	}
}

// TestLower compares the lower case of every character, and of invalid bytes, with Go.
func TestLower(t *testing.T) {
	t.Parallel()
	var texts []string
	for r := rune(0); r <= 0x1ffff; r++ {
		texts = append(texts, string(r))
	}
	texts = append(texts, "\x80", "A\xff", "\xc3\x28É", "\xe2\x82", "\xf0\x9f\x98", "\xed\xa0\x80", "\xc0\xaf", "\xf4\x90\x80\x80", "\xf8É", "É\xc3")
	got := callLua[[][]byte](t, `
		local lower = require("weir.lowercase").lower
		return function(s) return lower(s) end`, texts)
	for i, s := range texts {
		if want := strings.ToLower(s); string(got[i]) != want {
			t.Fatalf("lower(%q) = %q, want %q", s, got[i], want)
		}
	}
}

// callLua calls the function that code returns with each text, in one nginx. It returns the
// results, with "" for nil. Texts may have any bytes.
func callLua[T ~[][]byte](t *testing.T, code string, texts []string) T {
	t.Helper()
	in := make([][]byte, len(texts))
	for i, s := range texts {
		in[i] = []byte(s)
	}
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	out := nginxtest.Lua(t, `
		local f = (function() `+code+` end)()
		local out = {}
		for i, s in ipairs(require("cjson").decode(ngx.req.get_body_data())) do
			out[i] = ngx.encode_base64(f(ngx.decode_base64(s)) or "")
		end
		ngx.print(require("cjson").encode(out))`, string(body))
	var got T
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v in %.200s", err, out)
	}
	if len(got) != len(texts) {
		t.Fatalf("%d answers for %d texts", len(got), len(texts))
	}
	return got
}
