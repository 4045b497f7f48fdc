package importer_test

import (
	"os"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/importer"
)

// flowRules is the head of a resource of sentinel-golang's data source for Kubernetes.
const flowRules = "apiVersion: datasource.sentinel.io/v1alpha1\nkind: FlowRules\n"

// TestSentinelKubernetes checks rules in YAML and in manifests of Kubernetes, with their positions.
func TestSentinelKubernetes(t *testing.T) {
	of := func(kind, rule string) string {
		return "apiVersion: datasource.sentinel.io/v1alpha1\nkind: " + kind + "\nmetadata: { name: x }\nspec:\n  rules:\n    - " + rule + "\n"
	}
	const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: x }\ndata:\n"
	for text, want := range map[string]string{
		"# rules\n- resource: /x\n  count: 5\n":                                                                                       "# rules.yaml:2: resource \"/x\", count 5\n  - name: x\n    match:\n      paths: [\"/x\"]\n    key: [\"const:all\"]\n    # as Sentinel counts: in two halves of the period.\n    limits: [\"5/s sliding_window segments 2\"]",
		"- { Resource: /x, Threshold: 5.0, controlBehavior: Reject }":                                                                 `limits: ["5/s sliding_window segments 2"]`,
		of("FlowRules", "{ resource: /x, threshold: 500 }"):                                                                           "# rules.yaml:6: resource \"/x\", threshold 500\n",
		of("FlowRules", "{ resource: /x, threshold: 100, controlBehavior: Throttling, maxQueueingTimeMs: 500 }"):                      `limits: ["100/s leaky_bucket burst 50 queue"]`,
		of("FlowRules", "{ resource: /x, threshold: 200, tokenCalculateStrategy: WarmUp, warmUpPeriodSec: 20, warmUpColdFactor: 3 }"): `limits: ["200/s warmup 20s"]`,
		of("IsolationRules", "{ resource: /x, threshold: 100 }"):                                                                      `limits: ["100 concurrency"]`,
		of("HotspotRules", "{ resource: /x, metricType: QPS, paramIndex: 1, threshold: 20, durationInSec: 2, specificItems: [{ valKind: KindString, valStr: vip, threshold: 30 }] }"): `- { key: [vip], limits: ["30/2s interval"] }`,
		of("CircuitBreakerRules", "{ resource: a, strategy: ErrorRatio, threshold: 20, minRequestAmount: 10, statIntervalMs: 10000, retryTimeoutMs: 500 }"):                           "breaker: { rate: 20, of: 10, period: 10000ms, cooldown: 500ms }",
		of("CircuitBreakerRules", "{ resource: a, strategy: SlowRequestRatio, threshold: 10, maxAllowedRtMs: 100, statIntervalMs: 10000, retryTimeoutMs: 500 }"):                      "breaker: { slow_rate: 10, of: 1, period: 10000ms, slow: 101ms, cooldown: 500ms }",
		of("CircuitBreakerRules", "{ resource: a, strategy: ErrorCount, threshold: 20, statIntervalMs: 10000, retryTimeoutMs: 500 }"):                                                 "breaker: { failures: 20, period: 10000ms, cooldown: 500ms }",
		of("SystemRules", "{ metricType: Load, strategy: BBR, triggerCount: 800 }"):                                                                                                   "system:\n  load: 8\n",
		of("SystemRules", "{ metricType: Concurrency, strategy: NoAdaptive, triggerCount: 8 }"):                                                                                       "inflight: 10\n",
		of("SystemRules", "{ metricType: InboundQPS, strategy: NoAdaptive, triggerCount: 8 }"):                                                                                        `limits: ["8/s sliding_window segments 2"]`,
		configMap + "  flow.json: |\n    [\n      {\"resource\": \"/x\",\n       \"count\": 5}\n    ]\n":                                                                              "# rules.yaml:7: resource \"/x\", count 5\n",
		configMap + "  flow.json: '[{\"resource\": \"/x\", \"threshold\": 5}]'\n":                                                                                                     "# rules.yaml:5: resource \"/x\", threshold 5\n",
		configMap + "  flow.yaml: |\n    - resource: /x\n      threshold: 5\n    - resource: /y\n      threshold: 6\n":                                                                "# rules.yaml:8: resource \"/y\", threshold 6\n",
		"---\n" + of("FlowRules", "{ resource: /x, threshold: 5 }") + "---\n" + of("FlowRules", "{ resource: /y, threshold: 6 }"):                                                     "# rules.yaml:14: resource \"/y\", threshold 6\n",
		"apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(of("FlowRules", "{ resource: /x, threshold: 5 }")), "\n", "\n  "):                             "# rules.yaml:9: resource \"/x\", threshold 5\n",
	} {
		r, err := importer.Sentinel("rules.yaml", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if accepted(t, r); !strings.Contains(r.Text, want) || len(r.Listed) > 0 {
			t.Errorf("%s: want %s, listed %v, got\n%s", text, want, r.Listed, r.Text)
		}
	}
	for text, want := range map[string]string{
		of("SystemRules", "{ metricType: CpuUsage, strategy: NoAdaptive, triggerCount: 80 }"): `rules.yaml:6: strategy "NoAdaptive", metricType "CpuUsage", triggerCount 80: sentinel-golang measures CPU`,
		of("FlowRules", "{ resource: /x, threshold: 5, statIntervalInMs: 10000 }"):            "rules.yaml:6: statIntervalInMs 10000 of",
		of("SystemRules", "{ metricType: Nonsense, triggerCount: 80 }"):                       `rules.yaml:6: metricType "Nonsense", triggerCount 80: metricType is "Nonsense", want a whole number`,
		configMap + "  sentinel.yaml: |\n    version: v1\n":                                   "rules.yaml:5: data: sentinel.yaml: it is not an array of rules",
		configMap + "  a.json: '5'\n":                                                         "rules.yaml:5: data: a.json: it is not an array",
		"apiVersion: v1\nkind: ConfigMap\nbinaryData: { a: WzFd }\ndata: { b: '[]' }\n":       "rules.yaml:3: binaryData of the ConfigMap: want the rules as text",
		"apiVersion: v1\nkind: ConfigMap\n":                                                   "rules.yaml:1: ConfigMap: it has no data",
		"apiVersion: apps/v1\nkind: Deployment\n":                                             "rules.yaml:1: kind: Deployment: it has no rules of Sentinel",
		"apiVersion: example.com/v1\nkind: FlowRules\n":                                       "rules.yaml:1: kind: FlowRules: it has no rules of Sentinel",
	} {
		r, err := importer.Sentinel("rules.yaml", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if accepted(t, r); len(r.Listed) != 1 || !strings.HasPrefix(r.Listed[0].String(), want) {
			t.Errorf("%s: listed %v, want %s", text, r.Listed, want)
		}
	}
	if _, err := importer.Sentinel("rules.yaml", []byte(configMap+"  flow.json: |\n    [\n      {\"resource\" 1}]\n")); err == nil || !strings.HasPrefix(err.Error(), "rules.yaml:7: want JSON") {
		t.Errorf("invalid JSON in a ConfigMap: %v, want its line", err)
	}
}

// TestSystemRulesTogether checks that the lowest threshold of several system rules counts.
func TestSystemRulesTogether(t *testing.T) {
	r, err := importer.Sentinel("rules.json", []byte(`[
{"highestSystemLoad": 5, "highestCpuUsage": 0.9, "maxThread": 19},
{"highestSystemLoad": 4, "highestCpuUsage": 0.95, "maxThread": 9}, {"resource": "/x", "count": 5}]`))
	if err != nil || len(r.Listed) > 0 {
		t.Fatalf("%v, listed %v", err, r.Listed)
	}
	accepted(t, r)
	for _, want := range []string{"# rules.json:2: system rule, highestSystemLoad 5\n", "# rules.json:3: system rule, maxThread 9\n", "system:\n  cpu: 90\n  load: 4\n", "which is 10.\n  inflight: 12\n\npolicies:"} {
		if !strings.Contains(r.Text, want) {
			t.Errorf("no %q in\n%s", want, r.Text)
		}
	}
}

// TestFixtures checks that the result for every sample is a valid policy file.
func TestFixtures(t *testing.T) {
	names, err := os.ReadDir("testdata/sentinel")
	if err != nil || len(names) < 2 {
		t.Fatalf("%v, %v", names, err)
	}
	for _, e := range names {
		data, err := os.ReadFile("testdata/sentinel/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		r, err := importer.Sentinel(e.Name(), data)
		if err != nil {
			t.Errorf("%s: %v", e.Name(), err)
			continue
		}
		if accepted(t, r); r.Policies == 0 && !strings.Contains(r.Text, "\nsystem:") && !strings.Contains(r.Text, "functions:") {
			t.Errorf("%s: nothing is converted:\n%s", e.Name(), r.Text)
		}
	}
}
