package weirfile_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/weirfile"
)

// TestCostOfFixtures checks that both forms of a cost charge the fixtures of package budget exactly, also
// compressed: several numbers of a body, and of several events of a stream.
func TestCostOfFixtures(t *testing.T) {
	costs := map[string][2]string{
		"anthropic.sse": {"message.usage.input_tokens + message.usage.cache_read_input_tokens + usage.output_tokens",
			"response.body.message.usage.input_tokens + response.body.message.usage.cache_read_input_tokens + response.body.usage.output_tokens"},
		"openai-chat.sse":       {"usage.prompt_tokens + usage.completion_tokens", "response.body.usage.prompt_tokens + response.body.usage.completion_tokens"},
		"openai-responses.sse":  {"response.usage.total_tokens", "response.body.response.usage.total_tokens"},
		"openai-chat.json":      {"usage.prompt_tokens + usage.completion_tokens", "response.body.usage.total_tokens"},
		"openai-responses.json": {"usage.input_tokens + usage.output_tokens", "response.body.usage.total_tokens"},
		"anthropic.json": {"usage.input_tokens + usage.cache_read_input_tokens + usage.output_tokens",
			"response.body.usage.input_tokens + response.body.usage.cache_read_input_tokens + response.body.usage.output_tokens"},
	}
	types := map[string]string{".json": "application/json", ".sse": "text/event-stream"}
	for file, forms := range costs {
		body, err := os.ReadFile(filepath.Join("../budget/testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range []string{"json: " + forms[0], "expr: " + forms[1]} {
			for _, encoding := range []string{"", "gzip"} {
				text := body
				if encoding != "" {
					var b bytes.Buffer
					z := gzip.NewWriter(&b)
					_, _ = z.Write(body)
					_ = z.Close()
					text = b.Bytes()
				}
				f, err := weirfile.Parse("weir.yaml", []byte("policies: [{ name: p, key: const:a, limits: 1000/d, cost: { estimate: 500, "+form+" } }]"))
				if err != nil {
					t.Fatal(err)
				}
				store, err := memstore.New(memstore.Config{})
				if err != nil {
					t.Fatal(err)
				}
				m, err := httplimit.New(store, f.Policies, httplimit.Config{})
				if err != nil {
					t.Fatal(err)
				}
				h := m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", types[filepath.Ext(file)])
					if encoding != "" {
						w.Header().Set("Content-Encoding", encoding)
					}
					for len(text) > 0 {
						n := min(100, len(text))
						_, _ = w.Write(text[:n])
						text = text[n:]
					}
				}))
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/", nil))
				d := httptest.NewRecorder()
				m.Wrap(http.NotFoundHandler()).ServeHTTP(d, httptest.NewRequest("POST", "/", nil))
				if got := d.Header().Get("X-RateLimit-Remaining"); got != "350" { // of 1,000, with the next estimate
					t.Errorf("%s by %s %s: remaining %s, want 350 after a charge of 150", file, form, encoding, got)
				}
				_ = store.Close()
			}
		}
	}
}
