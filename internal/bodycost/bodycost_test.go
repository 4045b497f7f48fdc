package bodycost

import (
	"net/http"
	"testing"
)

// FuzzBody checks that a response has the same cost for any division into writes.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"usage":{"n":42}}`, `{"usage":{"n":1},"usage":{"n":-2}}`, `{"usage":{"n":9223372036854775808}}`, `{"usage":null}`, `[`, "",
		"data: {\"usage\":{\"n\":1}}\n\ndata: [DONE]\r\n\r\n", "data:{\"usage\":{\"n\":1}}\rdata:", ": {}\nid: 1\n", "\xef\xbb\xbfdata: {}", `{"\ud800":{"n":1}}`,
	} {
		f.Add(seed, 3)
	}
	f.Fuzz(func(t *testing.T, text string, piece int) {
		for _, kind := range []string{"application/json", "text/event-stream"} {
			h := http.Header{"Content-Type": {kind}}
			whole, cut := []Member{{Path: "usage.n"}}, []Member{{Path: "usage.n"}}
			b := NewBody(h, whole, nil)
			b.Write([]byte(text))
			b.End()
			b = NewBody(h, cut, nil)
			for rest := text; len(rest) > 0; {
				n := min(max(1, piece), len(rest))
				b.Write([]byte(rest[:n]))
				rest = rest[n:]
			}
			b.End()
			if m := whole[0]; cut[0] != m || m.n < 0 || m.n > maxCost || !m.found && m.n != 0 {
				t.Errorf("%s %q has %+v at once and %+v in pieces of %d", kind, text, m, cut[0], piece)
			}
		}
	})
}
