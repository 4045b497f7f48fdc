package edge_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/floodweir/weir/e2e/programtest"
)

const questionsPlan = `{"store": "redis://127.0.0.1:6379", "policies": [
  {"name": "a", "match": {"paths": ["/a/{x}", "/b/*"], "methods": ["GET"], "hosts": ["*.example.com"], "headers": {"X-A": ["a", "*"]}, "where": "size(request.path) > 1 || cidr(\"10.0.0.0/8\").containsIP(client.ip)"},
   "key": ["client.ip", "claim:sub", "method", "cel:request.headers[\"x-a\"]", "path", "host"], "limits": ["10/s", {"rate": "100/day", "calendar": "Europe/Berlin"}], "candidate": ["5/s"], "cost": "size(request.path)",
   "overrides": [{"key": ["10.0.0.1", "", "GET", "a", "/b/*", "a.example.com"], "limits": ["7/s"]}, {"key": ["10.0.0.0/8", "*", "P*", "*", "*", "*"], "limits": ["8/s"]}]},
  {"name": "b", "key": ["header:X-A"], "limits": [{"rate": 20, "algorithm": "concurrency", "lease": "30s"}], "on_denied": {"headers": {"X-B": "b"}}},
  {"name": "c", "key": ["const:all"], "limits": ["10/s"], "count": "failures", "percent": 50}
]}`

// readPlans reads each text as a plan, and asks by it if it is one. It gives what is
// wrong with each, "" if nothing.
func readPlans(t *testing.T, texts []string) []string {
	t.Helper()
	out := []string{}
	for _, b := range questionsLua[[][]byte](t, `
		local plan, questions, request = require "weir.plan", require "weir.questions", require "weir.request"
		return function(text)
		  local p, err = plan.read(text)
		  if not p then return err end
		  plan.follow(p, plan.read(text))
		  for _, path in ipairs { "/", "/a/1", "/b" } do
		    local ok, problem = pcall(questions.ask, p, request.of { path = path, host = "a.example.com", headers = { ["x-a"] = { "a" } }, ip = "10.0.0.2" })
		    if not ok then return "asking: " .. tostring(problem) end
		  end
		  return ""
		end`, texts) {
		out = append(out, string(b))
	}
	return out
}

// TestQuestionsPlan: what is wrong with a plan is told, with its place.
func TestQuestionsPlan(t *testing.T) {
	good := plansOf(t, programtest.Weir(t), []string{questionsPlan})[0]
	tests := []struct{ old, new, want string }{
		{"", "", ""},
		{`{"format":1,`, `{"format":2,`, "plan: format 2: want 1: made by another version of weir"},
		{`{"format":1,`, `{`, "plan: format nil: want 1: made by another version of weir"},
		{`{"format":1,`, `[`, "plan: want JSON"},
		{`"percent":50`, `"percent":0`, "plan: policies.c.percent: want a whole number from 1 to 100, got 0"},
		{`"percent":50`, `"percent":1.5`, "plan: policies.c.percent: want a whole number from 1 to 100, got 1.5"},
		{`"percent":50`, `"percent":NaN`, "plan: want JSON"},
		{`"count":"failures"`, `"count":"some"`, "plan: policies.c.count: want one of admitted, all, failures, successes, got some"},
		{`"name":"c"`, `"name":"b"`, "plan: policies.b: want every name once"},
		{`"source":"const"`, `"source":"moon"`, "plan: policies.c.key[0]: want a source that this version knows, got moon"},
		{`"op":"size"`, `"op":"regexp"`, "plan: policies.a.match.where: want an operation that this version knows, got regexp"},
		{`"op":"size"`, `"op":"=="`, "plan: policies.a.match.where: want 2 arguments of =="},
		{`"value":"10.0.0.0/8"`, `"value":"10.0.0.0/33"`, "plan: policies.a.match.where: want a network of cidr"},
		{`"network":"10.0.0.0/8"`, `"network":"10/8"`, "plan: policies.a.wildcards[0].fit[0]: want a network such as 203.0.113.0/24"},
		{`"candidate":[`, `"candidate":[99,`, "plan: policies.a.candidate[0]: want a whole number from 1 to"},
		{`"on_store_error":"open"`, `"on_store_error":"local"`, "want one of closed, open, got local"},
		{`"script":"`, `"script":7,"x":"`, "plan: script: want a text, got 7"},
		{`"policies":[`, `"policies":null,"x":[`, "plan: policies: want a list"},
		{`"candidate":[`, `"candidate":[{"limit":"x"},`, "plan: policies.a.candidate[0]: want a whole number from 1 to"},
		{`"status":429`, `"status":"429"`, "plan: policies.a.on_denied.status: want a whole number from 100 to 599, got 429"},
	}
	var texts []string
	for _, tc := range tests {
		if !strings.Contains(good, tc.old) {
			t.Fatalf("no %s in the plan", tc.old)
		}
		texts = append(texts, strings.Replace(good, tc.old, tc.new, 1))
	}
	for i, got := range readPlans(t, texts) {
		if tc := tests[i]; !strings.Contains(got, tc.want) || tc.want == "" && got != "" {
			t.Errorf("%s in the place of %s: %q, want %q", tc.new, tc.old, got, tc.want)
		}
	}
	questionsBroken(t, good)
}

// questionsBroken: whatever stands in the place of a part of a plan, reading it and
// asking by it is no fault of the program.
func questionsBroken(t *testing.T, good string) {
	d := questionsDice{rand.New(rand.NewPCG(*questionsSeed, 2))}
	var texts []string
	for range 1500 {
		var plan any
		if err := json.Unmarshal([]byte(good), &plan); err != nil {
			t.Fatal(err)
		}
		plan.(map[string]any)["script"] = "return 1"
		for range 1 + d.IntN(2) {
			d.breakIn(plan)
		}
		text, err := json.Marshal(plan)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	refused := 0
	for i, got := range readPlans(t, texts) {
		switch {
		case strings.HasPrefix(got, "asking: "), strings.Contains(got, ".lua:"):
			t.Errorf("%s: of %.3000s", got, texts[i])
		case got != "":
			refused++
		}
	}
	t.Logf("%d of %d broken plans are refused", refused, len(texts))
	if refused < 500 {
		t.Errorf("%d are refused, want 500", refused)
	}
}

// breakIn puts something else in the place of a value within v.
func (d questionsDice) breakIn(v any) {
	other := []any{nil, true, -1.0, 0.0, 1e300, 0.5, "", "x", []any{}, []any{nil}, map[string]any{}, map[string]any{"a": 1.0}, []any{[]any{1.0}}, []any{"a", 2.0}}
	switch v := v.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		if len(keys) == 0 {
			return
		}
		k := keys[d.IntN(len(keys))]
		switch _, leaf := v[k].(string); {
		case d.in(3) || leaf:
			v[k] = other[d.IntN(len(other))]
		case d.in(10):
			delete(v, k)
		default:
			d.breakIn(v[k])
		}
	case []any:
		if len(v) == 0 {
			return
		}
		i := d.IntN(len(v))
		if d.in(3) {
			v[i] = other[d.IntN(len(other))]
		} else {
			d.breakIn(v[i])
		}
	}
}
