package weirfile

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestBlockIsAsTheWhole changes a file with a long list of overrides at random. It checks that its errors
// and its policies are those of the file that is read as one text.
func TestBlockIsAsTheWhole(t *testing.T) {
	var b strings.Builder
	b.WriteString("policies:\n  - name: a\n    key: header:K\n    limits: 10/s\n    overrides:\n")
	for i := range 1200 {
		fmt.Fprintf(&b, "      - { key: customer-%06d, limits: [%d/s burst 200, 5000/24h] }\n", i, 100+i%50)
	}
	b.WriteString("    mode: shadow\n  - name: b\n    key: header:K\n    limits: 20/s\n")
	lines := strings.SplitAfter(b.String(), "\n")
	parts := strings.Split(" |  |-|\"|'|{|}|[|]|:|#|\n|>|&a |*a|!|? |,|\t|x|---\n|...\n|- |\r|%", "|")
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 30 {
		changed := append([]string(nil), lines...)
		for range 1 + r.IntN(2) {
			n := r.IntN(len(lines))
			if r.IntN(3) == 0 { // around the list
				n = (r.IntN(12) + len(lines) - 5) % len(lines)
			}
			line := changed[n]
			at := r.IntN(len(line) + 1)
			to := min(len(line), at+r.IntN(2)) // removes a byte or none
			changed[n] = line[:at] + parts[r.IntN(len(parts))] + line[to:]
		}
		text := []byte(strings.Join(changed, ""))
		got, err := parse("f", text, nil)
		want, d := decode("f", text, nil, nil)
		wantErr := error(nil)
		if errs := d.Errors(); len(errs) > 0 {
			wantErr = errs.Cut()
		}
		switch {
		case fmt.Sprint(err) != fmt.Sprint(wantErr):
			t.Errorf("change %d: %.300v, as one text:\n%.300v", i, err, wantErr)
		case err == nil:
			a, b := got.Policies.Policies(), want.Policies.Policies()
			if len(a) != len(b) || fmt.Sprint(a[0].Config().Overrides) != fmt.Sprint(b[0].Config().Overrides) {
				t.Errorf("change %d: other policies than as one text", i)
			}
		}
	}
}
