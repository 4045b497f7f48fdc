package importer_test

import (
	"encoding/json"
	"os"
	"testing"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	filter "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/encoding/protojson"
)

const examples = "../../../../docs/examples/"

// TestEnvoyExample reads the examples of the documentation: the configuration of Envoy field
// by field, as Envoy does, and the limits, which contain its domain.
func TestEnvoyExample(t *testing.T) {
	limits, err := ratelimit.Load(examples + "ratelimit")
	if err != nil {
		t.Fatal(err)
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
	if err := b.ValidateAll(); err != nil {
		t.Error(err)
	}
	var manager hcm.HttpConnectionManager
	if err := b.GetStaticResources().GetListeners()[0].GetFilterChains()[0].GetFilters()[0].GetTypedConfig().UnmarshalTo(&manager); err != nil {
		t.Fatal(err)
	}
	if err := manager.ValidateAll(); err != nil {
		t.Error(err)
	}
	var rate filter.RateLimit
	if err := manager.GetHttpFilters()[0].GetTypedConfig().UnmarshalTo(&rate); err != nil {
		t.Fatal(err)
	}
	if err := rate.ValidateAll(); err != nil {
		t.Error(err)
	}
	domain := limits.Domain(rate.GetDomain())
	for _, es := range [][]ratelimit.Entry{{{Key: "remote_address", Value: "203.0.113.7"}}, {{Key: "path", Value: "/login"}}} {
		if _, ok := domain.Match(es); !ok {
			t.Errorf("%v has no limit in the domain %q", es, rate.GetDomain())
		}
	}
}
