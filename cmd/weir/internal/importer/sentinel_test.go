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
		`"resource": "/x", "count": 0.4`:                                                 "a count of 0.4 is less than one request",
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
		`"resource": "/x", "count": 5, "paramIdx": 0, "controlBehavior": 1`: "want a controlBehavior of 0 or 2 with a parameter",
		`"resource": "/x", "threshold": 10, "tokenCalculateStrategy": 0`:    "a rule of sentinel-golang",
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
		"":                      "rules.json:1: want an array of rules in JSON",
		"{}":                    "rules.json:1: want an array of rules in JSON",
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
