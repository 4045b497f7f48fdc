package importer_test

import (
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/importer"
)

// TestSentinelFunctions imports rules for a Go program.
func TestSentinelFunctions(t *testing.T) {
	const (
		flow   = `{"resource": "a", "threshold": 2, "controlBehavior": 0}`
		minute = `{"resource": "a", "threshold": 50, "controlBehavior": 0, "statIntervalInMs": 60000}`
		broken = `{"resource": "a", "strategy": 1, "retryTimeoutMs": 20, "minRequestAmount": 20, "statIntervalMs": 2000, "threshold": 0.2}`
		slots  = `{"resource": "a", "metricType": 0, "threshold": 7}`
		values = `{"resource": "a", "metricType": 1, "threshold": 5, "durationInSec": 1, "paramIndex": 3, "specificItems": [{"valStr": "hot", "threshold": 100}]}`
		each   = `{"resource": "a", "metricType": 1, "threshold": 5, "paramIndex": 0}`
		waits  = `{"resource": "a", "count": 5, "controlBehavior": 3, "maxQueueingTimeMs": 200}`
	)
	for _, test := range []struct {
		rules  []string
		want   string
		listed string
	}{
		{[]string{flow}, "- name: a\n      limits: [\"2/s sliding_window segments 2\"]\n", ""},
		{[]string{flow, minute}, "limits: [\"2/s sliding_window segments 2\", \"50/60s sliding_window segments 2\"]\n", ""},
		{[]string{slots, broken, flow}, "limits: [\"2/s sliding_window segments 2\"]\n      bulkhead: { max: 7 }\n      breaker: { rate: 20, ", ""},
		{[]string{values}, "limits: [\"5/s interval\"]\n      overrides:\n        - { key: [hot], limits: [\"100/s interval\"] }\n", ""},
		{[]string{values, slots}, "bulkhead: { max: 7 }\n      overrides:", ""},
		{[]string{values}, "the key of a call is parameter 3: pass it to guard.Enter.", ""},
		{[]string{waits}, "limits: [\"5/s burst 1 warmup 10s\"]\n      wait: 200ms\n", ""},
		{[]string{`{"resource": "/a", "count": 5}`, flow}, `paths: ["/a"]`, ""},
		{[]string{`{"resource": "a", "count": 2, "controlBehavior": 2}`}, `limits: ["2/s leaky_bucket burst 1 queue"]`, ""},
		{[]string{flow, values}, "2/s", "one key and one list of overrides"},
		{[]string{flow, each}, "2/s", "one key and one list of overrides"},
		{[]string{values, values}, "5/s", "one key and one list of overrides"},
		{[]string{flow, waits}, "2/s", "one wait for all limits"},
		{[]string{waits, flow}, "5/s", "one wait for all limits"},
		{[]string{slots, slots}, "max: 7", "has a bulkhead already"},
		{[]string{broken, broken}, "rate: 20", "has a breaker already"},
		{[]string{`{"resource": "a", "count": 0}`}, "store: memory", "it denies every call"},
		{[]string{`{"resource": "a", "count": 5, "limitApp": "shop"}`}, "store: memory", "limitApp is a caller"},
	} {
		text := "[\n" + strings.Join(test.rules, ",\n") + "]"
		r, err := importer.SentinelFunctions("rules.json", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if accepted(t, r); !strings.Contains(r.Text, test.want) || strings.Contains(r.Text, "X-Resource") {
			t.Errorf("%s: want %s, got\n%s", text, test.want, r.Text)
		}
		if test.listed == "" && len(r.Listed) > 0 || test.listed != "" && (len(r.Listed) != 1 || !strings.Contains(r.Listed[0].Why, test.listed)) {
			t.Errorf("%s: listed %v, want %q", text, r.Listed, test.listed)
		}
	}
}
