package budget_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/floodweir/weir/budget"
)

// TestReadCall checks what requests of each format declare.
func TestReadCall(t *testing.T) {
	for _, tc := range []struct {
		path, body string
		want       budget.ModelRequest
	}{
		{"/v1/chat/completions", `{"model":"m1","messages":[{"model":"x"}],"max_tokens":100,"n":3,"stream":true,"stream_options":{"include_usage":true}}`,
			budget.ModelRequest{Model: "m1", MaxOutput: 300, Stream: true, Usage: true, Chat: true}},
		{"/v1/chat/completions", `{"max_tokens":10,"max_completion_tokens":20,"response_format":{"type":"json_schema"}}`, budget.ModelRequest{MaxOutput: 20, Structured: true, Chat: true}},
		{"/v1/responses", `{"model":"m1","max_output_tokens":7,"text":{"format":{"type":"json_object"}}}`, budget.ModelRequest{Model: "m1", MaxOutput: 7, Structured: true}},
		{"/v1/responses", `{"model":"m1","text":{"format":{"type":"text"}},"stream":false}`, budget.ModelRequest{Model: "m1"}},
		{"/v1/messages", `{"model":"a","max_tokens":64000,"stream":true}`, budget.ModelRequest{Model: "a", MaxOutput: 64000, Stream: true}},
		{"/v1beta/models/g:streamGenerateContent", `{"generationConfig":{"maxOutputTokens":50,"candidateCount":2}}`, budget.ModelRequest{Model: "g", MaxOutput: 100, Stream: true}},
		{"/model/b/converse-stream", `{"inferenceConfig":{"maxTokens":9}}`, budget.ModelRequest{Model: "b", MaxOutput: 9, Stream: true}},
		{"/api/chat", `{"model":"o","options":{"num_predict":-1}}`, budget.ModelRequest{Model: "o", Stream: true}},
		{"/api/chat", `{"model":"o","stream":false,"options":{"num_predict":5},"format":"json"}`, budget.ModelRequest{Model: "o", MaxOutput: 5, Structured: true}},
		{"/v1/chat/completions", `{"max_tokens":1099511627776,"n":1099511627776}`, budget.ModelRequest{MaxOutput: budget.MaxTokens, Chat: true}},
		{"/", `{"max_tokens":1.5,"n":"2","model":5}`, budget.ModelRequest{}},
	} {
		if got, err := budget.ReadRequest(tc.path, []byte(tc.body)); got != tc.want || err != nil {
			t.Errorf("ReadRequest(%s, %s) = %+v, %v, want %+v", tc.path, tc.body, got, err, tc.want)
		}
	}
	for _, body := range []string{"", "null", "[]", `{"model":"m1"`, "x"} {
		if got, err := budget.ReadRequest("/models/g:generateContent", []byte(body)); err == nil || got.Model != "g" {
			t.Errorf("ReadRequest of %q = %+v, %v, want an error, and the model of the path", body, got, err)
		}
	}
}

// TestAddUsage checks that only the usage is added to a body.
func TestAddUsage(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"m1","stream":true}`: `{"stream_options":{"include_usage":true},"model":"m1","stream":true}`,
		`{ "a": [1,  2], "stream_options" : {"x":1,"include_usage":false} , "b":"é" }`: `{ "a": [1,  2], "stream_options" : {"include_usage":true,"x":1} , "b":"é" }`,
		`{"stream_options":null}`: `{"stream_options":{"include_usage":true}}`,
		` { } `:                   ` {"stream_options":{"include_usage":true} } `,
		`[1]`:                     `[1]`,
		`{"a":`:                   `{"a":`,
	} {
		if got := string(budget.AddUsage([]byte(body))); got != want {
			t.Errorf("AddUsage(%s) = %s, want %s", body, got, want)
		}
	}
}

// TestLimitOutput checks the bound that a request has afterwards, in each format.
func TestLimitOutput(t *testing.T) {
	for _, tc := range []struct {
		format           budget.Format
		path, body, want string
	}{
		{"auto", "/v1/chat/completions", `{"model":"m1"}`, `{"max_completion_tokens":100,"model":"m1"}`},
		{"auto", "/v1/chat/completions", `{"max_tokens":7}`, `{"max_tokens":7}`},
		{"auto", "/v1/chat/completions", `{"max_tokens":101, "a":1}`, `{"max_tokens":100, "a":1}`},
		{"auto", "/v1/chat/completions", `{"max_tokens":101,"max_completion_tokens":102}`, `{"max_tokens":100,"max_completion_tokens":100}`},
		{"auto", "/v1/chat/completions", `{"max_tokens":1,"max_tokens":1e9}`, `{"max_tokens":100,"max_tokens":100}`},
		{"auto", "/v1/chat/completions", `{"max_completion_tokens":-1}`, `{"max_completion_tokens":100}`},
		{"auto", "/v1/chat/completions", `{"max_tokens":null,"n":3}`, `{"max_completion_tokens":33,"max_tokens":null,"n":3}`},
		{"auto", "/v1/chat/completions", `{"max_tokens":50,"n":3}`, `{"max_tokens":33,"n":3}`},
		{"auto", "/v1/chat/completions", `{"n":1000}`, `{"max_completion_tokens":1,"n":1000}`},
		{"auto", "/other", `{}`, `{"max_completion_tokens":100}`},
		{"auto", "/v1/responses", `{"max_tokens":1}`, `{"max_output_tokens":100,"max_tokens":1}`},
		{"auto", "/v1/messages", `{"max_tokens":500}`, `{"max_tokens":100}`},
		{"anthropic", "/other", `{"max_tokens":"x"}`, `{"max_tokens":100}`},
		{"auto", "/v1beta/models/m1:streamGenerateContent", `{"generationConfig":{"topK":1}}`, `{"generationConfig":{"maxOutputTokens":100,"topK":1}}`},
		{"auto", "/v1beta/models/m1:generateContent", `{"generationConfig":{"candidateCount":2,"maxOutputTokens":60}}`, `{"generationConfig":{"candidateCount":2,"maxOutputTokens":50}}`},
		{"auto", "/model/m1/converse", `{}`, `{"inferenceConfig":{"maxTokens":100}}`},
		{"auto", "/api/chat", `{"options":{"num_predict":-1}}`, `{"options":{"num_predict":100}}`},
		{"auto", "/v1/chat/completions", `[1]`, `[1]`},
		{"auto", "/v1/chat/completions", `{"a":`, `{"a":`},
	} {
		m, err := budget.NewMeter(budget.MeterConfig{Unit: budget.Tokens, Format: tc.format, MaxOutput: 100, IncludeMax: "max_completion_tokens"})
		if err != nil {
			t.Fatal(err)
		}
		got := m.LimitOutput(tc.path, []byte(tc.body))
		if string(got) != tc.want {
			t.Errorf("%s of %s: %s, want %s", tc.path, tc.body, got, tc.want)
		}
		c, err := budget.ReadRequest(tc.path, got)
		if most := int64(100); err == nil && tc.path != "/other" && (c.MaxOutput < 1 || c.MaxOutput > most && tc.body != `{"n":1000}`) {
			t.Errorf("%s of %s: a bound of %d, want at most %d", tc.path, tc.body, c.MaxOutput, most)
		}
	}
}

// FuzzAddUsage checks that an object keeps its other members, and has the usage.
func FuzzAddUsage(f *testing.F) {
	f.Add(`{"model":"m1","stream_options":{"x":[{}]},"n":1e3}`)
	f.Add(`{"stream_options":{},"stream_options":1}`)
	f.Fuzz(func(t *testing.T, body string) {
		var before, after map[string]any
		got := budget.AddUsage([]byte(body))
		if json.Unmarshal([]byte(body), &before) != nil || before == nil || strings.Count(body, "stream") > 1 || strings.Contains(body, `\`) {
			return
		}
		if err := json.Unmarshal(got, &after); err != nil {
			t.Fatalf("AddUsage(%q) = %q: %v", body, got, err)
		}
		if o, _ := after["stream_options"].(map[string]any); o["include_usage"] != true {
			t.Fatalf("AddUsage(%q) = %q, want the usage", body, got)
		}
		delete(before, "stream_options")
		delete(after, "stream_options")
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("AddUsage(%q) = %q: other members differ", body, got)
		}
	})
}

// TestBoundOfCall checks that the model and the maximum of a call lower its bound, and that a model
// without a price is refused by default.
func TestBoundOfCall(t *testing.T) {
	list := []budget.Price{
		{Models: []string{"cheap"}, Input: "1", Output: "2", CacheWrite: "3", Above: 5000, Long: &budget.Price{Input: "10", Output: "20"}},
		{Models: []string{"dear-*"}, Input: "100", Output: "200"},
	}
	prices := func(unknown string) *budget.Prices {
		p, err := budget.NewPrices(unknown, list...)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	m, err := budget.NewMeter(budget.MeterConfig{Unit: budget.USD, Prices: prices(""), MaxOutput: 4000, Step: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		call   budget.ModelRequest
		length int64
		output int64
		cost   int64
	}{
		{budget.ModelRequest{Model: "cheap"}, 1000, 4000, 2000*3 + 4000*2},
		{budget.ModelRequest{Model: "cheap", MaxOutput: 500}, 1000, 500, 2000*3 + 500*2},
		{budget.ModelRequest{Model: "cheap", MaxOutput: 9000}, 1000, 4000, 2000*3 + 4000*2},
		{budget.ModelRequest{Model: "cheap", Stream: true}, 1000, 1000, 2000*3 + 1000*2},
		{budget.ModelRequest{Model: "cheap", Stream: true}, 9000, 1000, 10000*10 + 1000*20},
		{budget.ModelRequest{Model: "dear-1", Stream: true, MaxOutput: 10}, -1, 10, 1000*100 + 10*200},
		{budget.ModelRequest{}, 0, 4000, 1000*100 + 4000*200},
	} {
		output := m.Output(tc.call)
		if got := m.Bound(tc.length, tc.call, output); output != tc.output || got != tc.cost {
			t.Errorf("%+v, %d bytes: %d tokens and %d micro-dollars, want %d and %d", tc.call, tc.length, output, got, tc.output, tc.cost)
		}
	}
	if got := m.Least(); got != 1000*3+1000*2 {
		t.Errorf("Least = %d, want that of the cheapest model", got)
	}
	if err := m.Refuse(budget.ModelRequest{Model: "dear-1"}); err != nil {
		t.Errorf("Refuse of a model with a price = %v", err)
	}
	for _, model := range []string{"", "other"} {
		if err := m.Refuse(budget.ModelRequest{Model: model}); !errors.Is(err, budget.ErrUnknownModel) || !strings.Contains(err.Error(), model) {
			t.Errorf("Refuse of the model %q = %v, want ErrUnknownModel", model, err)
		}
	}
	for _, unknown := range []string{"highest", "cheap"} {
		m, err := budget.NewMeter(budget.MeterConfig{Unit: budget.USD, Prices: prices(unknown)})
		if err != nil || m.Refuse(budget.ModelRequest{Model: "other"}) != nil {
			t.Errorf("unknown_model: %s refuses a model", unknown)
		}
	}
	for _, bad := range []budget.MeterConfig{{MaxBody: -1}, {MaxBody: 65 << 20}, {Step: -1}, {Exhausted: "stop"}, {Disconnected: "wait"}} {
		bad.Unit = budget.Tokens
		if _, err := budget.NewMeter(bad); err == nil {
			t.Errorf("NewMeter(%+v) has no error", bad)
		}
	}
}
