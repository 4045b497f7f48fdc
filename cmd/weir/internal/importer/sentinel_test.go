package importer_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/importer"
)

func TestSentinelRules(t *testing.T) {
	for _, test := range []struct{ fields, want string }{
		{`"count": 5`, `limits: ["5/s sliding_window segments 2"]`},
		{`"count": 5.0, "grade": 1`, `limits: ["5/s sliding_window segments 2"]`},
		{`"count": 5, "grade": 0`, `limits: ["5 concurrency"]`},
		{`"count": 5.9, "grade": 0`, `a count of 5.9 admits 5`},
		{`"count": 100, "controlBehavior": 1`, `limits: ["100/s warmup 10s"]`},
		{`"count": 100, "controlBehavior": 2`, `limits: ["100/s leaky_bucket burst 50 queue"]`},
		{`"count": 100, "controlBehavior": 2, "maxQueueingTimeMs": 0`, `limits: ["100/s leaky_bucket"]`},
		{`"count": 0.1, "controlBehavior": 2, "maxQueueingTimeMs": 20000`, `limits: ["1/10s leaky_bucket burst 2 queue"]`},
		{`"count": 2.5, "controlBehavior": 2`, `limits: ["5/2s leaky_bucket burst 1 queue"]`},
		{`"count": 1e3, "controlBehavior": 2`, `limits: ["1000/s leaky_bucket burst 500 queue"]`},
		{`"count": 5, "controlBehavior": 3, "maxQueueingTimeMs": 0`, `limits: ["5/s burst 1 warmup 10s"]`},
		{`"count": 5, "controlBehavior": 3`, `on_denied: { wait: 500ms }`},
		{`"count": 5, "paramIdx": 2`, `key: ["header:X-Param-2"]`},
		{`"count": 5, "paramIdx": 0, "grade": 0`, `limits: ["5 concurrency"]`},
		{`"count": 5, "paramIdx": 0, "controlBehavior": 2, "maxQueueingTimeMs": 1000, "durationInSec": 10`, `limits: ["1/2s leaky_bucket queue"]`},
		{`"count": 5, "limitApp": null, "strategy": null`, `limits: ["5/s sliding_window segments 2"]`},
	} {
		r, err := importer.Sentinel("rules.json", []byte(`[{"resource": "/x", `+test.fields+`}]`))
		if err != nil {
			t.Errorf("%s: %v", test.fields, err)
			continue
		}
		want := test.want
		if strings.Contains(want, "leaky_bucket queue") {
			want = `limits: ["1/2s leaky_bucket"]`
		}
		if accepted(t, r); !strings.Contains(r.Text, want) || len(r.Listed) > 0 {
			t.Errorf("%s: want %s, listed %v, got\n%s", test.fields, want, r.Listed, r.Text)
		}
	}
}

func TestSentinelResources(t *testing.T) {
	for resource, want := range map[string]string{
		"/a/b":                                  `paths: ["/a/b"]`,
		"/a/":                                   `paths: ["/a"]`,
		"/":                                     `paths: ["/"]`,
		"/a/**":                                 `paths: ["/a/*"]`,
		"/a/*":                                  `paths: ["/a/*"]`,
		"/a/*/b/*/c":                            `paths: ["/a/{any2}/b/{any4}/c"]`,
		"POST:/a":                               `methods: [POST]`,
		"com.shop.Orders:get(java.lang.String)": `X-Resource: ["com.shop.Orders:get(java.lang.String)"]`,
		"GET:http://shop/a":                     `X-Resource: ["GET:http://shop/a"]`,
		"/a?b=c":                                `X-Resource: ["/a?b=c"]`,
		"it's \\ \"x\"":                         `X-Resource: ['it''s \ "x"']`,
		"日本":                                    `X-Resource: ["日本"]`,
	} {
		r, err := importer.Sentinel("rules.json", fmt.Appendf(nil, `[{"resource": %q, "count": 1}]`, resource))
		if err != nil {
			t.Errorf("%s: %v", resource, err)
			continue
		}
		if accepted(t, r); !strings.Contains(r.Text, want) || len(r.Listed) > 0 {
			t.Errorf("%s: want %s, listed %v, got\n%s", resource, want, r.Listed, r.Text)
		}
	}
}

func TestSentinelListed(t *testing.T) {
	for fields, want := range map[string]string{
		`"resource": "/x"`:                                                               `count is , want a number below 10^15`,
		`"resource": "/x", "count": "5"`:                                                 `count is "5", want a number below 10^15`,
		`"resource": "/x", "count": 1e300`:                                               `count is 1e300, want a number below 10^15`,
		`"resource": "/x", "count": 1e-300`:                                              `count is 1e-300, want a number below 10^15`,
		`"resource": "/x", "count": -1`:                                                  "ignores a rule with a count below 0",
		`"resource": "/x", "count": 0.4, "controlBehavior": 3`:                           "a queue with a warm-up and a count of 0.4",
		`"resource": "/x", "count": 5, "grade": 7`:                                       "want a grade of 0 (threads) or 1 (QPS)",
		`"resource": "/x", "count": 5, "grade": "1"`:                                     `grade is "1", want a whole number`,
		`"resource": "/x", "count": 5, "controlBehavior": 9`:                             "want a controlBehavior of 0, 1, 2 or 3",
		`"resource": "/x", "count": 5, "strategy": 3`:                                    "want a strategy of 0, 1 or 2",
		`"resource": "/x", "count": 5, "regex": true`:                                    "the resource is a regular expression",
		`"resource": "/x", "count": 5, "clusterMode": "yes"`:                             `clusterMode is "yes", want true or false`,
		`"resource": "/x", "count": 5, "controlBehavior": 1, "warmUpPeriodSec": 0`:       "want a warmUpPeriodSec from 1 on",
		`"resource": "/x", "count": 5, "controlBehavior": 3, "maxQueueingTimeMs": 70000`: "want a maxQueueingTimeMs from 0 to 60000",
		`"resource": "/x", "count": 900000000000000`:                                     "not a valid policy",
		`"count": 5`:                "ignores a rule without a resource",
		`"resource": 7, "count": 5`: "resource is 7, want a text",
		`"resource": "/x", "count": 5, "paramIdx": 0, "controlBehavior": 1`:           "want a controlBehavior of 0 or 2 with a parameter",
		`"resource": "/x", "limitApp": "a,b", "strategy": 1`:                          "an authority rule",
		`"resource": "/x", "count": -5, "grade": 2, "timeWindow": 1`:                  "want a number of errors, got -5",
		`"resource": "/x", "count": 5, "grade": 1, "timeWindow": 1`:                   "want a ratio above 0 and up to 1, got 5",
		`"resource": "/x", "count": 0.5, "grade": 3, "timeWindow": 1`:                 "want a grade of 0 (slow calls), 1 (ratio of errors) or 2",
		`"resource": "/x", "count": 3000000000, "grade": 0, "timeWindow": 1`:          "want a count of milliseconds",
		`"resource": "/x", "count": 0.5, "grade": 1, "timeWindow": 4000`:              "not a valid rule: \"4000000ms\": want a time such as 30s",
		`"count": 0.5, "grade": 1, "timeWindow": 1`:                                   "ignores a rule without a resource",
		`"highestSystemLoad": 0.5`:                                                    "system.load is a whole number from 1 on",
		`"highestCpuUsage": 1, "qps": -1`:                                             "the CPU usage is never above 1",
		`"highestCpuUsage": 80`:                                                       "Sentinel ignores a highestCpuUsage above 1",
		`"highestCpuUsage": 0.001`:                                                    "system.cpu is a whole percentage from 1 on",
		`"highestSystemLoad": 999999999999`:                                           "not a valid rule: ",
		`"avgRt": 100`:                                                                "no rule here compares the average response time",
		`"avgRt": "x"`:                                                                `avgRt is "x", want a number`,
		`"resource": "/x", "threshold": 0, "metricType": 0`:                           "ignores an isolation rule with a threshold of 0",
		`"resource": "/x", "threshold": 1, "tokenCalculateStrategy": 2`:               "depends on the memory in use",
		`"resource": "/x", "threshold": 1, "tokenCalculateStrategy": 3`:               "want a tokenCalculateStrategy from 0 to 2",
		`"resource": "/x", "threshold": 1, "relationStrategy": 1, "refResource": "y"`: "it limits when y is busy",
		`"resource": "/x", "threshold": 9, "tokenCalculateStrategy": 1, "warmUpPeriodSec": 5, "warmUpColdFactor": 5`:    "a warmUpColdFactor of 5",
		`"resource": "/x", "threshold": 9, "tokenCalculateStrategy": 1, "warmUpPeriodSec": 5, "statIntervalInMs": 2000`: "a warm-up with a statIntervalInMs of 2000",
		`"metricType": 9, "triggerCount": 1`:                                                                              "want a metricType from 0 to 4",
		`"metricType": 4, "triggerCount": 80, "strategy": -1`:                                                             "sentinel-golang measures CPU as a fraction or",
		`"resource": "/x", "threshold": 5, "paramKey": "k", "specificItems": 7`:                                           "specificItems is 7, want a list",
		`"resource": "/x", "threshold": 0, "strategy": 2, "retryTimeoutMs": 10`:                                           "want a number of errors, got 0",
		`"resource": "/x", "count": 5, "paramIdx": 0, "grade": 0, "paramFlowItemList": [{"object": "a", "count": 20000}]`: "count 20000: out of range",
	} {
		r, err := importer.Sentinel("rules.json", []byte("[\n{"+fields+"}]"))
		if err != nil {
			t.Errorf("%s: %v", fields, err)
			continue
		}
		accepted(t, r)
		if len(r.Listed) != 1 || !strings.HasPrefix(r.Listed[0].String(), "rules.json:2: ") || !strings.Contains(r.Listed[0].Why, want) {
			t.Errorf("%s: listed %v, want %s", fields, r.Listed, want)
		}
	}
}

func TestSentinelBroken(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "rules.json:1: want an array of rules in JSON or YAML, or manifests of Kubernetes",
		"{}":                    "rules.json:1: want an array of rules in JSON or YAML",
		"# nothing\n---\n":      "rules.json:1: want an array of rules in JSON or YAML",
		"- a: 1\n- x":           "rules.json:2: want a rule, which is an object",
		"- {a: 1, A: 2}":        `rules.json:1: "a": want every field once`,
		"a: 1\na: 2":            "rules.json:2: ",
		"a: [":                  "rules.json:1: ",
		"---\n---\n\nb: 1":      "rules.json:4: want an array of rules in JSON or YAML",
		flowRules + "spec: 5\n": "rules.json:1: spec.rules: want a list of rules",
		"[\n1]":                 "rules.json:2: want a rule, which is an object",
		"[{\"a\":1,\n\"a\":2}]": `rules.json:2: "a": want every field once`,
		"[{\"a\":}]":            "rules.json:1: want JSON: ",
		"[{\"a\":1}":            "rules.json:1: want JSON: ",
		"[{]":                   "rules.json:1: want JSON: ",
		"[] []":                 "rules.json:1: want nothing after the array",
		"\xff[]":                "rules.json: want text in UTF-8",
	} {
		_, err := importer.Sentinel("rules.json", []byte(text))
		var e *importer.Error
		if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestSentinelProtection checks degrade and system rules.
func TestSentinelProtection(t *testing.T) {
	for fields, want := range map[string]string{
		`"resource": "getId", "grade": 1, "count": 0.5, "timeWindow": 30`:                                                                                        "- name: getId\n      breaker: { rate: 50, of: 5, period: 1000ms, cooldown: 30000ms }",
		`"resource": "GET:http://a/b", "grade": 0, "count": 200, "timeWindow": 10, "slowRatioThreshold": 0.105, "minRequestAmount": 10, "statIntervalMs": 20000`: "breaker: { slow_rate: 11, of: 10, period: 20000ms, slow: 201ms, cooldown: 10000ms }",
		`"resource": "a", "count": 20.0, "grade": 0, "passCount": 0, "timeWindow": 10`:                                                                           "breaker: { slow_rate: 100, of: 5, period: 1000ms, slow: 21ms, cooldown: 10000ms }",
		`"resource": "a", "count": 50.5, "grade": 0, "timeWindow": 10`:                                                                                           "breaker: { slow_rate: 100, of: 5, period: 1000ms, slow: 52ms, cooldown: 10000ms }",
		`"highestSystemLoad": -1, "qps": 100, "avgRt": -1, "maxThread": 10`:                                                                                      `key: ["const:all"]`,
		`"qps": 100.0, "maxThread": 10`:                                     `limits: ["100/s sliding_window segments 2"]`,
		`"maxThread": 10`:                                                   "system:\n  # Requests without a priority get 80 % of it, which is 11.\n  inflight: 14\n",
		`"maxThread": 10, "highestCpuUsage": 0.7`:                           "system:\n  cpu: 70\n  # Requests without a priority get 70 % of it, which is 11.\n  inflight: 16\n",
		`"highestSystemLoad": 3.7`:                                          "# differs: the load 3.7 is rounded down: system.load is a whole number.\nsystem:\n  load: 3\n",
		`"metricType": 0, "triggerCount": 8, "strategy": 1`:                 "such as health checks.\nsystem:\n  load: 8\n",
		`"metricType": "Load", "triggerCount": 8, "strategy": "NoAdaptive"`: "system:\n  load: 8\n",
		`"metricType": 2, "triggerCount": 0.7`:                              "of it, which is 1.\n  inflight: 2\n",
		`"metricType": 0, "triggerCount": 8`:                                "sentinel-golang rejects every request without BBR.",
		`"resource": "a", "strategy": 1, "retryTimeoutMs": 20, "minRequestAmount": 20, "statIntervalMs": 2000, "threshold": 0.2, "probeNum": 3`: "breaker: { rate: 20, of: 20, period: 2000ms, cooldown: 20ms, trials: 3 }",
		`"resource": "a", "strategy": 0, "retryTimeoutMs": 10, "maxAllowedRtMs": 100, "threshold": 0.1, "statIntervalMs": 1000`:                 "breaker: { slow_rate: 10, of: 1, period: 1000ms, slow: 101ms, cooldown: 10ms }",
		`"resource": "a", "count": 5, "grade": 2, "timeWindow": 3, "statIntervalMs": 60000`:                                                     "breaker: { failures: 6, period: 60000ms, cooldown: 3000ms }",
		`"resource": "a", "count": 1, "grade": 2, "timeWindow": 3, "minRequestAmount": 10`:                                                      "# differs: it opens after 2 errors, Sentinel after 10 calls at the earliest.",
		`"resource": "a", "strategy": "ErrorCount", "retryTimeoutMs": 20, "threshold": 5, "statIntervalMs": 2000, "probeNum": 2`:                "breaker: { failures: 5, period: 2000ms, cooldown: 20ms, trials: 2 }",
		`"metricType": 3, "triggerCount": 8, "strategy": -1`:                                                                                    `limits: ["8/s sliding_window segments 2"]`,
		`"metricType": 2, "triggerCount": 8, "strategy": 0`:                                                                                     "of it, which is 8.\n  inflight: 10\n",
	} {
		expect(t, fields, want)
	}
	r, err := importer.Sentinel("rules.json", []byte(`[{"resource": "a", "grade": 1, "count": 0.5, "timeWindow": 1}, {"resource": "a", "grade": 0, "count": 5, "timeWindow": 1}]`))
	if err != nil || len(r.Listed) != 1 || !strings.Contains(r.Listed[0].Why, "the resource has a breaker already") {
		t.Errorf("two breakers of a resource: %v, listed %v, want the second", err, r.Listed)
	}
}

// expect imports one rule, which must become want and nothing else.
func expect(t *testing.T, fields, want string) {
	t.Helper()
	r, err := importer.Sentinel("rules.json", []byte("[{"+fields+"}]"))
	if err != nil {
		t.Errorf("%s: %v", fields, err)
		return
	}
	if accepted(t, r); !strings.Contains(r.Text, want) || len(r.Listed) > 0 {
		t.Errorf("%s: want %s, listed %v, got\n%s", fields, want, r.Listed, r.Text)
	}
}

// TestSentinelGo checks flow, hot spot and isolation rules of sentinel-golang.
func TestSentinelGo(t *testing.T) {
	for fields, want := range map[string]string{
		`"threshold": 100.0, "relationStrategy": 0, "tokenCalculateStrategy": 0, "controlBehavior": 0, "refResource": "", "maxQueueingTimeMs": 1000, "statIntervalInMs": 0`: `limits: ["100/s sliding_window segments 2"]`,
		`"threshold": 10, "statIntervalInMs": 10000`:                                                                                  `limits: ["10/10s sliding_window segments 2"]`,
		`"threshold": 10, "statIntervalInMs": 500`:                                                                                    `limits: ["10/500ms sliding_window segments 2"]`,
		`"threshold": 300, "controlBehavior": 1, "maxQueueingTimeMs": 3000`:                                                           `limits: ["300/s leaky_bucket burst 900 queue"]`,
		`"threshold": 10, "controlBehavior": 1`:                                                                                       `limits: ["10/s leaky_bucket"]`,
		`"threshold": 10, "controlBehavior": "Throttling", "statIntervalInMs": 5000, "maxQueueingTimeMs": 1000`:                       `limits: ["2/s leaky_bucket burst 2 queue"]`,
		`"threshold": 100, "tokenCalculateStrategy": 1, "warmUpPeriodSec": 20, "warmUpColdFactor": 3`:                                 `limits: ["100/s warmup 20s"]`,
		`"threshold": 100, "tokenCalculateStrategy": "WarmUp", "controlBehavior": 1, "warmUpPeriodSec": 20, "maxQueueingTimeMs": 200`: `limits: ["100/s burst 1 warmup 20s"]`,
		`"metricType": 0, "Threshold": 90`:                                                                                            `limits: ["90 concurrency"]`,
		`"metricType": 1, "paramIndex": 1, "threshold": 20, "burstCount": 5, "durationInSec": 2, "specificItems": [{"valKind": 1, "valStr": "vip", "threshold": 30}]`: `- { key: [vip], limits: ["30/2s interval burst 35"] }`,
		`"metricType": 0, "paramKey": "user", "threshold": 20`:                                                                  `key: ["header:X-Param-user"]`,
		`"metricType": 1, "controlBehavior": 1, "paramIndex": 0, "threshold": 20, "maxQueueingTimeMs": 100, "durationInSec": 1`: `limits: ["20/s leaky_bucket burst 2 queue"]`,
	} {
		expect(t, `"Resource": "/x", "ID": "1", `+fields, want)
	}
}

// TestManyRules checks that a file with more rules than a policy file may have is valid, and
// lists the others.
func TestManyRules(t *testing.T) {
	var rules []string
	for i := range 300 {
		rules = append(rules, fmt.Sprintf(`{"resource": "/r%d", "count": 5}`, i))
	}
	r, err := importer.Sentinel("rules.json", []byte("["+strings.Join(rules, ",\n")+"]"))
	if err != nil {
		t.Fatal(err)
	}
	accepted(t, r)
	if r.Policies+len(r.Listed) != 300 {
		t.Errorf("%d policies and %d listed, want 300 together", r.Policies, len(r.Listed))
	}
	for _, i := range r.Listed {
		if !strings.Contains(i.Why, "not valid with the policies before it: ") {
			t.Errorf("listed %v, want the reason", i)
		}
	}
}

// TestSentinelBlocks checks that a count below one request becomes a policy that blocks.
func TestSentinelBlocks(t *testing.T) {
	const block = "    block: true"
	for fields, want := range map[string]string{
		`"resource": "/x", "count": 0`:                                                                      "      paths: [\"/x\"]\n    block: true",
		`"resource": "/x", "count": 0, "grade": 0`:                                                          block,
		`"resource": "/x", "count": 0.4`:                                                                    "a count of 0.4 admits 0, as Sentinel counts whole requests.\n    block: true",
		`"resource": "/x", "count": 0, "controlBehavior": 2`:                                                block,
		`"resource": "/x", "count": 0.4, "controlBehavior": 2`:                                              `limits: ["2/5s leaky_bucket"]`,
		`"resource": "/x", "count": 0, "paramIdx": 0`:                                                       block,
		`"resource": "/x", "count": 0, "paramIdx": 0, "paramFlowItemList": [{"object": "vip", "count": 5}]`: "block: true\n    overrides:\n      - { key: [vip], limits: [\"5/s interval\"] }",
		`"resource": "/x", "count": 5, "paramIdx": 0, "paramFlowItemList": [{"object": "bad", "count": 0}]`: "overrides:\n      - { key: [bad], limits: 0 }",
		`"resource": "/x", "threshold": 0`:                                                                  block,
		`"resource": "/x", "threshold": 0, "controlBehavior": 1, "maxQueueingTimeMs": 100`:                  block,
		`"resource": "/x", "paramIndex": 0, "metricType": 1, "threshold": 0`:                                block,
		`"qps": 0`:                           block,
		`"maxThread": 0`:                     "inflight: 2\n",
		`"metricType": 2, "triggerCount": 0`: block,
	} {
		expect(t, fields, want)
	}
}
