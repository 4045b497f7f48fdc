package rlqs_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	filterpb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rate_limit_quota/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
	"github.com/floodweir/weir/cmd/weir/internal/rlqs"
	"github.com/floodweir/weir/share"
	"github.com/floodweir/weir/weirfile"
	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/encoding/protojson"
)

// TestConfigErrors checks that each field is validated.
func TestConfigErrors(t *testing.T) {
	valid := rlqs.Config{Ledger: share.NewMemory(nil), Domains: []string{"d"}}
	for name, change := range map[string]func(*rlqs.Config){
		"Ledger":      func(c *rlqs.Config) { c.Ledger = nil },
		"Domains":     func(c *rlqs.Config) { c.Domains = nil },
		"TTL":         func(c *rlqs.Config) { c.TTL = 13 * time.Second },
		"TTL: ":       func(c *rlqs.Config) { c.TTL = 15*time.Second + time.Millisecond },
		"AfterExpiry": func(c *rlqs.Config) { c.AfterExpiry = rlqs.AfterExpiry{Allow: true, Reuse: time.Second} },
		"Drift":       func(c *rlqs.Config) { c.Drift = 100_000 },
	} {
		c := valid
		change(&c)
		if _, err := rlqs.New(c); !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), strings.ToLower(name)) && !strings.Contains(err.Error(), name) {
			t.Errorf("New with a bad %s = %v, want an error with that name", name, err)
		}
	}
}

// TestCheck checks that limits which clients cannot have parts of are refused, with the reason.
func TestCheck(t *testing.T) {
	for rate, want := range map[string]string{
		"{ unit: second, requests_per_unit: 1000, algorithm: token_bucket }":             "",
		"{ unit: minute, requests_per_unit: 600, algorithm: leaky_bucket, burst: 600 }":  "",
		"{ unit: second, requests_per_unit: 0 }":                                         "",
		"{ unlimited: true }":                                                            "",
		"{ unit: minute, requests_per_unit: 1000 }":                                      `domain "d": a: "1000/m fixed_window anchor epoch" does not fit the quota service: clients have token buckets, which cross the ends of windows: want algorithm: token_bucket; 500 requests per 1m0s with burst: 500 never exceed a window of 1000`,
		"{ unit: minute, requests_per_unit: 1000, algorithm: sliding_window }":           "500 requests per 1m0s with burst: 500",
		"{ unit: second, requests_per_unit: 100, algorithm: sliding_log }":               "of which a sliding_log has no parts: want algorithm: token_bucket",
		"{ unit: second, requests_per_unit: 10, algorithm: token_bucket }":               "its capacity is less than 100; use the rate limit service for it",
		"{ unit: second, requests_per_unit: 1000, algorithm: token_bucket, burst: 200 }": "want burst: 1000 or more, got 200",
		"{ unit: second, requests_per_unit: 1000, algorithm: token_bucket, count: all }": "want no count: all",
	} {
		c, err := ratelimit.Parse("f.yaml", []byte("domain: d\ndescriptors: [{ key: a, rate_limit: "+rate+" }]"))
		if err != nil {
			t.Fatal(err)
		}
		switch err := rlqs.Check(c, []string{"d"}); {
		case want == "" && err != nil:
			t.Errorf("Check(%s) = %v, want nil", rate, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("Check(%s) = %v, want %q", rate, err, want)
		}
	}
	if err := rlqs.Check(nil, []string{"d"}); err == nil || !strings.Contains(err.Error(), `grpc.quota_service.domains[0]: "d": want a domain of the files of grpc.config`) {
		t.Errorf("Check without limits = %v", err)
	}
}

const examples = "../../../../docs/examples/quota/"

// TestExample reads the example of the documentation: the configuration of Envoy field by field, as
// Envoy does, and that of Weir, which has its domain and its buckets.
func TestExample(t *testing.T) {
	file, err := weirfile.Load(examples + "weir.yaml")
	if err != nil {
		t.Fatal(err)
	}
	limits, err := ratelimit.Load(file.GRPC.Config)
	if err != nil {
		t.Fatal(err)
	}
	if err := rlqs.Check(limits, file.GRPC.QuotaService.Domains); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(examples + "envoy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := yaml.Load(text, &tree); err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	var b bootstrap.Bootstrap
	if err := protojson.Unmarshal(body, &b); err != nil {
		t.Fatal(err)
	}
	var manager hcm.HttpConnectionManager
	if err := b.GetStaticResources().GetListeners()[0].GetFilterChains()[0].GetFilters()[0].GetTypedConfig().UnmarshalTo(&manager); err != nil {
		t.Fatal(err)
	}
	var quota filterpb.RateLimitQuotaFilterConfig
	if err := manager.GetHttpFilters()[0].GetTypedConfig().UnmarshalTo(&quota); err != nil {
		t.Fatal(err)
	}
	var bucket filterpb.RateLimitQuotaBucketSettings
	if err := quota.GetBucketMatchers().GetOnNoMatch().GetAction().GetTypedConfig().UnmarshalTo(&bucket); err != nil {
		t.Fatal(err)
	}
	for _, message := range []interface{ ValidateAll() error }{&b, &manager, &quota, &bucket} {
		if err := message.ValidateAll(); err != nil {
			t.Error(err)
		}
	}
	if rule := bucket.GetNoAssignmentBehavior().GetFallbackRateLimit().GetBlanketRule(); rule != typepb.RateLimitStrategy_DENY_ALL || bucket.GetExpiredAssignmentBehavior() != nil {
		t.Errorf("without an assignment: %v, and %v after one: want DENY_ALL and nothing", rule, bucket.GetExpiredAssignmentBehavior())
	}
	entries := []ratelimit.Entry{{Key: "name", Value: "all"}, {Key: "plan", Value: "gold"}}
	if len(bucket.GetBucketIdBuilder().GetBucketIdBuilder()) != len(entries) {
		t.Errorf("the bucket's id has other pairs than %v", entries)
	}
	if _, ok := limits.Domain(quota.GetDomain()).Match(entries); !ok {
		t.Errorf("%v has no limit in the domain %q", entries, quota.GetDomain())
	}
}
