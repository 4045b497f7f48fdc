package budget_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/floodweir/weir/budget"
)

var contentTypes = map[string]string{".json": "application/json", ".sse": "text/event-stream; charset=utf-8", ".ndjson": "application/x-ndjson"}

// fixture returns a response of testdata, its content type and its format.
func fixture(t testing.TB, name string) (text []byte, contentType string, format budget.Format) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	base, ext := strings.TrimSuffix(name, filepath.Ext(name)), filepath.Ext(name)
	return text, contentTypes[ext], budget.Format(strings.TrimSuffix(base, "-array"))
}

func fixtures(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// read returns the usage of text that arrives in pieces.
func read(f budget.Format, contentType, encoding string, text []byte, piece int) (budget.Usage, int64, error) {
	r := budget.NewReader(f, contentType, encoding, nil)
	for len(text) > 0 {
		n := min(piece, len(text))
		_, _ = r.Write(text[:n])
		text = text[n:]
	}
	_ = r.Close()
	u, err := r.Usage()
	return u, r.Generated(), err
}

// TestFixtures reads a response of each format, by its name and automatically, in pieces and
// compressed.
func TestFixtures(t *testing.T) {
	names := fixtures(t)
	if len(names) != 11 {
		t.Errorf("got %d fixtures, want 11", len(names))
	}
	m := table(t)
	for _, name := range names {
		text, contentType, format := fixture(t, name)
		want, price := budget.Usage{Model: "m1", Input: 40, Cached: 60, Output: 50}, int64(558)
		if format == budget.Ollama {
			want, price = budget.Usage{Model: "m1", Input: 100, Output: 50}, 625
		}
		for _, f := range []budget.Format{format, budget.Auto, ""} {
			for _, piece := range []int{1, 7, len(text)} {
				for _, encoding := range []string{"", "identity", "gzip", "deflate", "raw deflate"} {
					u, generated, err := read(f, contentType, strings.TrimPrefix(encoding, "raw "), encode(t, encoding, text), piece)
					if format == budget.Bedrock && u.Model == "" {
						u.Model = budget.PathModel("/model/m1/converse")
					}
					if u != want || err != nil || generated < 0 {
						t.Errorf("%s as %q, %q, pieces of %d: Usage = %+v, %v, want %+v", name, f, encoding, piece, u, err, want)
					}
					if cost, err := m.Cost(u); cost != price || err != nil {
						t.Errorf("%s: Cost = %d, %v, want %d", name, cost, err, price)
					}
				}
			}
		}
	}
}

func encode(t testing.TB, encoding string, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch encoding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "raw deflate":
		w, _ = flate.NewWriter(&b, 6)
	default:
		return text
	}
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const sse, js = "text/event-stream", "application/json"

// TestReader reads responses that other gateways are known to count wrong.
func TestReader(t *testing.T) {
	type usage = budget.Usage
	start := `data: {"type":"message_start","message":{"model":"m","usage":{"input_tokens":10,"output_tokens":1}}}` + "\n\n"
	for _, test := range []struct {
		name, contentType, text string
		want                    usage
		err                     error
	}{
		{"a count of 0 is a count", js, `{"object":"chat.completion","model":"m","usage":{"prompt_tokens":9,"completion_tokens":0}}`, usage{Model: "m", Input: 9}, nil},
		{"all counts are 0", js, `{"object":"chat.completion","usage":{"prompt_tokens":0,"completion_tokens":0}}`, usage{}, nil},
		{"no count is not 0", js, `{"object":"chat.completion","model":"m","usage":{}}`, usage{Model: "m"}, budget.ErrNoUsage},
		{"null", js, `{"object":"chat.completion","model":"m","usage":null}`, usage{Model: "m"}, budget.ErrNoUsage},
		{"no usage", js, `{"object":"chat.completion","model":"m"}`, usage{Model: "m"}, budget.ErrNoUsage},
		{"another answer", "text/html", `<html>`, usage{}, budget.ErrNoUsage},
		{"empty", js, ``, usage{}, budget.ErrNoUsage},
		{"digits in a string", js, `{"object":"chat.completion","usage":{"prompt_tokens":"7","completion_tokens":"8"}}`, usage{Input: 7, Output: 8}, nil},
		{"negative", js, `{"object":"chat.completion","usage":{"prompt_tokens":-7,"completion_tokens":8}}`, usage{Output: 8}, budget.ErrBadUsage},
		{"fraction", js, `{"object":"chat.completion","usage":{"prompt_tokens":7,"completion_tokens":8.5}}`, usage{Input: 7}, budget.ErrBadUsage},
		{"too large", js, `{"object":"chat.completion","usage":{"prompt_tokens":7,"completion_tokens":1099511627777}}`, usage{Input: 7}, budget.ErrBadUsage},
		{"cumulative events are not added", sse,
			`data: {"object":"chat.completion.chunk","usage":{"prompt_tokens":5,"completion_tokens":1}}` + "\n\n" +
				`data: {"object":"chat.completion.chunk","usage":{"prompt_tokens":5,"completion_tokens":2}}` + "\n\ndata: [DONE]\n\n", usage{Input: 5, Output: 2}, nil},
		{"a later null keeps the usage", sse,
			`data: {"object":"chat.completion.chunk","usage":{"prompt_tokens":5,"completion_tokens":2}}` + "\n\n" +
				`data: {"object":"chat.completion.chunk","usage":null}` + "\n\n", usage{Input: 5, Output: 2}, nil},
		{"a good count replaces a bad one", sse,
			`data: {"object":"chat.completion.chunk","usage":{"prompt_tokens":-1,"completion_tokens":2}}` + "\n\n" +
				`data: {"object":"chat.completion.chunk","usage":{"prompt_tokens":5}}` + "\n\n", usage{Input: 5, Output: 2}, nil},
		{"reasoning is part of the output", js, `{"object":"chat.completion","usage":{"prompt_tokens":1,"completion_tokens":50,"completion_tokens_details":{"reasoning_tokens":20}}}`, usage{Input: 1, Output: 50}, nil},
		{"more cached than input", js, `{"object":"chat.completion","usage":{"prompt_tokens":5,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":9}}}`, usage{Cached: 5, Output: 1}, nil},
		{"writes to the cache of chat", js, `{"object":"chat.completion","usage":{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":2,"cache_write_tokens":3}}}`, usage{Input: 4, Cached: 2, CacheWrite: 3, Output: 1}, nil},
		{"the input of message_delta", sse, start + `data: {"type":"message_delta","usage":{"input_tokens":30,"output_tokens":4}}` + "\n\n", usage{Model: "m", Input: 30, Output: 4}, nil},
		{"message_delta without input", sse, start + `data: {"type":"message_delta","usage":{"output_tokens":4}}` + "\n\n", usage{Model: "m", Input: 10, Output: 4}, nil},
		{"cut before message_delta", sse, start, usage{Model: "m", Input: 10, Output: 1}, budget.ErrNoUsage},
		{"lifetimes of the cache", js, `{"type":"message","usage":{"input_tokens":1,"cache_creation_input_tokens":9,"cache_creation":{"ephemeral_5m_input_tokens":4,"ephemeral_1h_input_tokens":5},"output_tokens":2}}`,
			usage{Input: 1, CacheWrite: 4, CacheWrite1h: 5, Output: 2}, nil},
		{"response.incomplete", sse, `data: {"type":"response.incomplete","response":{"model":"m","usage":{"input_tokens":3,"output_tokens":4}}}` + "\n\n", usage{Model: "m", Input: 3, Output: 4}, nil},
		{"tools of Gemini", js, `{"usageMetadata":{"promptTokenCount":3,"toolUsePromptTokenCount":4,"thoughtsTokenCount":5}}`, usage{Input: 7, Output: 5}, nil},
		{"Ollama without a count of 0", "application/x-ndjson", `{"model":"m","done":true,"eval_count":4}` + "\n", usage{Model: "m", Output: 4}, nil},
		{"Ollama without the last line", "application/x-ndjson", `{"model":"m","done":false}` + "\n", usage{Model: "m"}, budget.ErrNoUsage},
		{"another case", js, `{"object":"chat.completion","Usage":{"prompt_tokens":5}}`, usage{}, budget.ErrNoUsage},
		{"an event on two lines", sse, "data: {\"object\":\"chat.completion.chunk\",\ndata: \"usage\":{\"prompt_tokens\":5}}\n\n", usage{Input: 5}, nil},
		{"lines end in CR", sse, "event: x\rdata:{\"object\":\"chat.completion.chunk\",\rdata:\"usage\":{\"prompt_tokens\":5}}\r\r", usage{Input: 5}, nil},
		{"a broken event before", sse, "data: {\"a\":{\n\ndata: {\"object\":\"chat.completion.chunk\",\"usage\":{\"prompt_tokens\":5}}\n\n", usage{Input: 5}, nil},
		{"a comment before", sse, ": {\n\ndata: {\"object\":\"chat.completion.chunk\",\"usage\":{\"prompt_tokens\":5}}\n\n", usage{Input: 5}, nil},
		{"usage in the text of a model", sse, `data: {"object":"chat.completion.chunk","choices":[{"delta":{"content":"\"usage\":{\"prompt_tokens\":9}"}}]}` + "\n\n", usage{}, budget.ErrNoUsage},
		{"a long array before", js, `{"object":"list","data":[` + strings.Repeat(`{"x":[1,2]},`, 200_000) + `{}],"usage":{"prompt_tokens":5}}`, usage{Input: 5}, nil},
		{"an object that is too long", js, `{"object":"chat.completion",` + strings.Repeat(`"x":"y",`, 200_000) + `"usage":{"prompt_tokens":5}}`, usage{}, budget.ErrBadUsage},
		{"cut in an object", js, `{"object":"chat.completion","usage":{"prompt_tokens":5}`, usage{}, budget.ErrBadUsage},
		{"binary events", "application/vnd.amazon.eventstream", `{"usage":{"inputTokens":5}}`, usage{}, budget.ErrBadUsage},
	} {
		for _, piece := range []int{3, 4096} {
			u, _, err := read(budget.Auto, test.contentType, "", []byte(test.text), piece)
			if u != test.want || !errors.Is(err, test.err) {
				t.Errorf("%s: Usage = %+v, %v, want %+v, %v", test.name, u, err, test.want, test.err)
			}
		}
	}
}

// TestEncodings checks that a body that cannot be decoded is an error, and that a compressed stream
// that was cut has the counts before.
func TestEncodings(t *testing.T) {
	text, contentType, _ := fixture(t, "openai-chat.json")
	for encoding, body := range map[string][]byte{"br": text, "zstd": text, "gzip": text, "deflate": []byte("\x78\x9c\xff\xff")} {
		if _, _, err := read(budget.Auto, contentType, encoding, body, 5); !errors.Is(err, budget.ErrBadUsage) {
			t.Errorf("%s: Usage = %v, want %v", encoding, err, budget.ErrBadUsage)
		}
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(text)
	_ = w.Flush()
	if u, _, err := read(budget.Auto, contentType, "gzip", b.Bytes(), 5); u.Output != 50 || err != nil {
		t.Errorf("cut after the usage: Usage = %+v, %v, want 50 tokens of output", u, err)
	}
	if _, _, err := read(budget.Auto, contentType, "gzip", nil, 1); !errors.Is(err, budget.ErrNoUsage) {
		t.Errorf("empty body: Usage = %v, want %v", err, budget.ErrNoUsage)
	}
}

// TestGenerated checks the estimate for a stream without usage.
func TestGenerated(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       int64
	}{
		{"short pieces", strings.Repeat(`data: {"choices":[{"delta":{"role":"assistant","content":"a"}}]}`+"\n\n", 40), 40},
		{"a long piece", `data: {"choices":[{"delta":{"content":"` + strings.Repeat("abcd", 100) + `"}}]}` + "\n\n", 100},
		{"an escape", `data: {"choices":[{"delta":{"content":"\"}{[\""}}]}` + "\n\n", 2},
		{"no content", `data: {"choices":[{"delta":{"role":"assistant"}}],"model":"a long name of a model"}` + "\n\n", 0},
		{"Anthropic", `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"12345678"}}` + "\n\n", 2},
		{"content that is repeated", `data: {"type":"response.output_text.delta","delta":"12345678"}` + "\n\n" +
			`data: {"type":"response.output_text.done","text":"12345678"}` + "\n\n", 2},
	} {
		if _, got, _ := read(budget.Auto, sse, "", []byte(test.text), 5); got != test.want {
			t.Errorf("%s: Generated = %d, want %d", test.name, got, test.want)
		}
	}
}

// FuzzReader checks that the usage does not depend on the pieces in which a body arrives, and has
// counts from 0 to MaxTokens.
func FuzzReader(f *testing.F) {
	for _, name := range fixtures(f) {
		text, contentType, _ := fixture(f, name)
		f.Add(text, contentType, 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, contentType string, piece int) {
		u, generated, err := read(budget.Auto, contentType, "", text, max(1, min(piece, 100)))
		whole, all, wholeErr := read(budget.Auto, contentType, "", text, len(text)+1)
		if u != whole || (err == nil) != (wholeErr == nil) || generated != all {
			t.Fatalf("in pieces %+v, %v, %d, at once %+v, %v, %d", u, err, generated, whole, wholeErr, all)
		}
		for _, n := range []int64{u.Input, u.Cached, u.CacheWrite, u.CacheWrite1h, u.Output} {
			if n < 0 || n > budget.MaxTokens {
				t.Fatalf("Usage = %+v, want counts from 0 to %d", u, int64(budget.MaxTokens))
			}
		}
	})
}

func TestPathModel(t *testing.T) {
	for path, want := range map[string]string{
		"/model/anthropic.claude-v2:1/converse": "anthropic.claude-v2:1", "/v1beta/models/g-2:streamGenerateContent": "g-2",
		"/v1/chat/completions": "", "/model/": "", "/model//x": "", "/v1/models/g": "",
	} {
		if got := budget.PathModel(path); got != want {
			t.Errorf("PathModel(%q) = %q, want %q", path, got, want)
		}
	}
}

func TestReason(t *testing.T) {
	for want, err := range map[string]error{
		"no_usage": budget.ErrNoUsage, "bad_usage": fmt.Errorf("x: %w", budget.ErrBadUsage),
		"unknown_model": budget.ErrUnknownModel, "disconnected": budget.ErrDisconnected,
	} {
		if got := budget.Reason(err); got != want {
			t.Errorf("Reason(%v) = %s, want %s", err, got, want)
		}
	}
}
