package expr_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/weirfile/expr"
)

// A reply is a response with members of a JSON body.
type reply map[string]string

func (reply) Status() int                 { return 200 }
func (reply) Header(name string) []string { return http.Header{"X-Rows": {"7"}}[name] }
func (r reply) Body(path string) (json.RawMessage, bool) {
	text, ok := r[path]
	return json.RawMessage(text), ok
}

func TestResponseCost(t *testing.T) {
	body := reply{"usage.total_tokens": "10", "usage.text": `"12"`, "price": "0.25", "model": `"m1"`, "cached": "true", "neg": "-1", "huge": "1e300", "word": `"x"`}
	for _, test := range []struct {
		text string
		want int64
		err  error
	}{
		{"response.body.usage.total_tokens", 10, nil},
		{"response.body['usage'].total_tokens + response.body.usage.text", 22, nil},
		{"double(response.body.usage.total_tokens) * 1.55", 16, nil},
		{"double(response.body.price) * 10.0", 3, nil},
		{"uint(response.body.usage.text)", 12, nil},
		{`response.body.model == "m1" ? 5 : 1`, 5, nil},
		{`response.body.cached ? 1 : 4 * response.body.usage.total_tokens`, 1, nil},
		{`has(response.body.usage.none) ? response.body.usage.none : response.body.usage.total_tokens`, 10, nil},
		{`int(response.headers["x-rows"]) * response.status`, 1400, nil},
		{`request.path == "/v1" ? response.body.usage.total_tokens : 0`, 10, nil},
		{"response.body.usage.none + 1", 0, budget.ErrNoUsage},
		{"response.body.neg", 0, budget.ErrBadUsage},
		{"response.body.huge", 0, budget.ErrBadUsage},
		{"response.body.word", 0, budget.ErrBadUsage},
		{"response.body.usage.total_tokens / (response.body.usage.total_tokens - 10)", 0, budget.ErrBadUsage},
		{"double(response.body.usage.total_tokens) / (double(response.body.price) - 0.25)", 0, budget.ErrBadUsage}, // infinite
	} {
		e, err := expr.ResponseCost(test.text)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		if got, err := e.Cost(&request{path: "/v1"}, body); got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: Cost = %d, %v, want %d, %v", test.text, got, err, test.want, test.err)
		}
	}
	e, err := expr.ResponseCost("response.body.a.b + response.body.c + response.body.a.b")
	if err != nil || !slices.Equal(e.Paths(), []string{"a.b", "c"}) {
		t.Errorf("Paths = %q, %v, want a.b and c", e.Paths(), err)
	}
}

func TestResponseCostErrors(t *testing.T) {
	var many []string
	for i := range 17 {
		many = append(many, fmt.Sprintf("response.body.a%d", i))
	}
	for text, want := range map[string]string{
		"response.status == 200":                           "want an expression that is a number, got one of type bool",
		`response.headers["a"]`:                            "want an expression that is a number, got one of type string",
		"response.body":                                    "want a member of it",
		"response.body.a * 1.5":                            "want double(…) around them",
		"size(request.path)":                               "want response.body, response.headers or response.status in it",
		"3 + 4":                                            "is always 7",
		`response.body["a.b"]`:                             "want names of members without dots",
		"response.bodi.a":                                  "response.bodi",
		"response.headers.all(h, h != '') ? 1 : 2":         "want one value such as response.headers",
		strings.Join(many, " + "):                          "want at most 16 different members",
		`response.body.a.matches(response.body.b) ? 1 : 2`: "want the pattern itself in quotes",
	} {
		if _, err := expr.ResponseCost(text); !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := expr.Measure("response.status"); err == nil {
		t.Error("Measure(response.status) = nil, want an error: a request has no response yet")
	}
}
