package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/httpapi"
	"github.com/floodweir/weir/internal/bounds"
)

// TestBatch checks that a batch is charged all or nothing, and that each request sees the
// charges of those before it.
func TestBatch(t *testing.T) {
	store, _ := frozen(t)
	a := api(t, httpapi.Config{Store: store})
	for i, step := range []struct {
		body string
		want string // of the whole, and of each
	}{
		{`{"verb":"take","key":"a","limit":"10/h","n":4},{"verb":"take","key":"a","limit":"10/h","n":4}`,
			"ok granted 4 remaining 2 reset 2880 | ok granted 4 remaining 6 reset 1440 | ok granted 4 remaining 2 reset 2880"},
		{`{"verb":"take","key":"b","limit":"10/h"},{"verb":"take","key":"a","limit":"10/h","n":4}`,
			"denied remaining 2 retry 720 | ok granted 1 remaining 9 reset 360 | denied remaining 2 retry 720"},
		{`{"verb":"peek","key":"b","limit":"10/h","n":10}`, "ok granted 0 remaining 10 reset 0 | ok granted 0 remaining 10 reset 0"}, // nothing was taken
		{`{"verb":"return","key":"a","limit":"10/h","n":8},{"verb":"charge","key":"b","limit":"10/h","n":10}`,
			"ok granted 10 remaining 0 reset 3600 | ok granted 0 remaining 10 reset 0 | ok granted 10 remaining 0 reset 3600"},
		{`{"verb":"reset","key":"b","limit":"10/h"},{"verb":"take_up_to","key":"b","limits":["10/h","6/h"],"n":8}`,
			"ok granted 6 remaining 0 reset 3600 | ok granted 0 remaining 10 reset 0 | ok granted 6 remaining 0 reset 3600"},
		{`{"verb":"reserve","key":"c","limit":"10/h","n":3,"id":"x","ttl":60},{"verb":"commit","key":"c","limit":"10/h","n":5,"id":"x"}`,
			"ok granted 5 remaining 5 reset 1800 | ok granted 3 remaining 7 reset 60 | ok granted 5 remaining 5 reset 1800"},
		{`{"verb":"take","key":"c","limit":"10/h"},{"verb":"cancel","key":"c","limit":"10/h","id":"y"}`, "409"},
		{`{"verb":"peek","key":"c","limit":"10/h"}`, "ok granted 0 remaining 5 reset 1800 | ok granted 0 remaining 5 reset 1800"},
		{`{"verb":"peek","key":"c","limit":"10/h","n":6},{"verb":"take","key":"c","limit":"10/h"}`, // a no is a no, of peek too
			"denied remaining 5 retry 360 | denied remaining 5 retry 360 | ok granted 1 remaining 4 reset 2160"},
	} {
		w := ask(a, "POST", "/v1/batch", `{"requests":[`+step.body+`]}`)
		var m struct{ Results []json.RawMessage }
		if err := json.Unmarshal(w.Body.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		got := said(t, w.Body.Bytes())
		for _, r := range m.Results {
			got += " | " + said(t, r)
		}
		if got != step.want {
			t.Errorf("step %d: %s = %q, want %q\n%s", i+1, step.body, got, step.want, w.Body)
		}
	}
}

// TestLargeBatch checks that a large batch gets every decision, and its header stays
// small.
func TestLargeBatch(t *testing.T) {
	store, _ := frozen(t)
	a := api(t, httpapi.Config{Store: store})
	batch := func(n int) string {
		var qs []string
		for i := range n {
			qs = append(qs, fmt.Sprintf(`{"verb":"take","key":"%d","limit":"10/s burst 20"}`, i))
		}
		return `{"requests":[` + strings.Join(qs, ",") + `]}`
	}
	w := ask(a, "POST", "/v1/batch", batch(bounds.MaxBatch))
	if n := strings.Count(w.Body.String(), `"ok":true`); w.Code != 200 || n != bounds.MaxBatch+1 {
		t.Errorf("a batch of %d = %d with %d verdicts", bounds.MaxBatch, w.Code, n)
	}
	var limits []string
	for i := range bounds.MaxBatch {
		limits = append(limits, fmt.Sprintf(`"%d/s"`, i+1))
	}
	whole := ask(a, "POST", "/v1/take", `{"key":"k","limits":[`+strings.Join(limits, ",")+`]}`)
	for _, w := range []*httptest.ResponseRecorder{w, whole} {
		size := 0
		for name, values := range w.Header() {
			size += len(name) + len(values[0])
		}
		if got := w.Header().Get("Ratelimit"); w.Code != 200 || size > 1000 || strings.Count(got, "r=") != 1 {
			t.Errorf("%d; the header of the answer has %d bytes: %v", w.Code, size, w.Header())
		}
	}
}

func TestBadBatches(t *testing.T) {
	store, _ := frozen(t)
	a := api(t, httpapi.Config{Store: store})
	one := `{"verb":"take","key":"k","limit":"1/s"}`
	for _, test := range []struct{ body, field, value, expected string }{
		{``, "body", "nothing", `a JSON object with "requests"`},
		{`{}`, "requests", "nothing", "an array of 1 to 256"},
		{`{"requests":[]}`, "requests", "[]", "an array of 1 to 256"},
		{`{"requests":{}}`, "requests", "{}", "an array of 1 to 256"},
		{`{"requests":[` + strings.Repeat(one+",", 256) + one + `]}`, "requests", one[:20], "an array of 1 to 256"},
		{`{"requests":[` + one + `],"key":"k"}`, "key", `"k"`, `a known field: "requests"`},
		{`{"requests":[` + one + `],"requests":[]}`, "requests", "two values", "once"},
		{`{"requests":[` + one + `,7]}`, "requests[1]", "7", "a JSON object"},
		{`{"requests":[` + one + `,{"key":"k","limit":"1/s"}]}`, "requests[1].verb", "nothing", "one of take"},
		{`{"requests":[{"verb":"grab","key":"k","limit":"1/s"}]}`, "requests[0].verb", "grab", "one of take"},
		{`{"requests":[{"verb":"batch","requests":[]}]}`, "requests[0].verb", "batch", "one of take"},
		{`{"requests":[{"verb":1,"key":"k","limit":"1/s"}]}`, "requests[0].verb", "1", "one of take"},
		{`{"requests":[{"verb":"take","verb":"peek","key":"k","limit":"1/s"}]}`, "requests[0].verb", "two values", "once"},
		{`{"requests":[{"verb":"take","key":"k","limit":"0/s"}]}`, "requests[0].limit", "0/s", "a limit"},
		{`{"requests":[{"verb":"take","key":"k","limits":["1/s","x"]}]}`, "requests[0].limits[1]", "x", "a limit"},
		{`{"requests":[{"verb":"take","key":"k"}]}`, "requests[0].limit", "nothing", "a limit"},
		{`{"requests":[{"verb":"take","policy":"none","key":"k"}]}`, "requests[0].policy", "none", "the name of a configured policy"},
		{`{"requests":[{"verb":"commit","id":"a","key":"k","limit":"1/s"}]}`, "requests[0].n", "nothing", "tokens used"},
		{`{"requests":[{"verb":"take","id":"a","key":"k","limit":"1/s"}]}`, "requests[0].id", "a value", "take has none"},
		{`{"requests":[{"verb":"take","key":"k","limits":[` + strings.Repeat(`"1/s",`, 200) + `"2/s"]},{"verb":"take","key":"k","limits":[` + strings.Repeat(`"1/s",`, 200) + `"2/s"]}]}`,
			"requests", "more than 256 limits in total", "at most 256"},
	} {
		w := ask(a, "POST", "/v1/batch", test.body)
		var p struct{ Field, Value, Expected string }
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		if w.Code != 400 || p.Field != test.field || !strings.Contains(p.Value, test.value) || !strings.Contains(p.Expected, test.expected) || w.Body.Len() > 1000 {
			t.Errorf("batch %.100s = %d %s, want 400 with %q, %q, %q", test.body, w.Code, w.Body, test.field, test.value, test.expected)
		}
	}
}

func FuzzBatch(f *testing.F) {
	f.Add(`{"requests":[{"verb":"take","key":"k","limit":"10/s"},{"verb":"reserve","key":"k","limit":"1/s","id":"a","ttl":0.5}]}`, "")
	f.Add(`{"requests":[{"verb":"commit","key":"k","limit":"10/s","id":"a","n":3}]}`, "key")
	f.Add(`{"requests":[{"verb":"return","key":"k","limit":"10/s","at":"2026-01-02T15:04:05.678901Z"}]}`, `"8e03978e-40d5-43dd-bc93-6894a57f9324"`)
	f.Add(`{"requests":[{"verb":"charge","key":["a"],"limits":["10/s","1/24h fixed_window"],"n":9223372036854775807}]}`, "k")
	store, _ := frozen(f)
	a := api(f, httpapi.Config{Store: store})
	f.Fuzz(func(t *testing.T, body, key string) {
		w := askWith(a, "POST", "/v1/batch", body, "Idempotency-Key", key)
		if !json.Valid(w.Body.Bytes()) {
			t.Errorf("batch %q = %d %s", body, w.Code, w.Body)
		}
		switch w.Code {
		case 200, 400, 409, 422:
		default:
			t.Errorf("batch %q with key %q = %d %s", body, key, w.Code, w.Body)
		}
	})
}
