package telemetry_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// A receiver is a collector: it takes OTLP over HTTP and keeps it.
type receiver struct {
	url string

	mu       sync.Mutex
	spans    []map[string]any
	metrics  map[string]map[string]any // by name
	resource map[string]string         // of whatever came last
	paths    map[string]int
	headers  http.Header
	bad      []string
}

func newReceiver(tb testing.TB) *receiver {
	r := &receiver{metrics: map[string]map[string]any{}, paths: map[string]int{}}
	server := httptest.NewServer(r)
	tb.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paths[q.URL.Path]++
	r.headers = q.Header
	body, err := io.ReadAll(q.Body)
	if err == nil && q.Header.Get("Content-Type") == "application/x-protobuf" {
		switch {
		case strings.HasSuffix(q.URL.Path, "/v1/traces"):
			err = r.take(body, "opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest")
		case strings.HasSuffix(q.URL.Path, "/v1/metrics"):
			err = r.take(body, "opentelemetry.proto.collector.metrics.v1.ExportMetricsServiceRequest")
		}
	} else {
		r.bad = append(r.bad, q.Header.Get("Content-Type"))
	}
	if err != nil {
		r.bad = append(r.bad, err.Error())
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// take parses a message by its name, which the sender has linked in.
func (r *receiver) take(body []byte, name protoreflect.FullName) error {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(name)
	if err != nil {
		return err
	}
	m := kind.New().Interface()
	if err := proto.Unmarshal(body, m); err != nil {
		return err
	}
	text, err := protojson.Marshal(m)
	if err != nil {
		return err
	}
	var request struct {
		ResourceSpans []struct {
			Resource   struct{ Attributes []any }
			ScopeSpans []struct{ Spans []map[string]any }
		}
		ResourceMetrics []struct {
			Resource     struct{ Attributes []any }
			ScopeMetrics []struct{ Metrics []map[string]any }
		}
	}
	if err := json.Unmarshal(text, &request); err != nil {
		return err
	}
	for _, s := range request.ResourceSpans {
		r.resource = attributes(s.Resource.Attributes)
		for _, s := range s.ScopeSpans {
			r.spans = append(r.spans, s.Spans...)
		}
	}
	for _, s := range request.ResourceMetrics {
		r.resource = attributes(s.Resource.Attributes)
		for _, s := range s.ScopeMetrics {
			for _, m := range s.Metrics {
				r.metrics[m["name"].(string)] = m
			}
		}
	}
	return nil
}

// attributes returns the attributes of a span, an event or a resource, as strings.
func attributes(list any) map[string]string {
	all := map[string]string{}
	items, _ := list.([]any)
	for _, item := range items {
		a := item.(map[string]any)
		for _, v := range a["value"].(map[string]any) {
			b, _ := json.Marshal(v)
			all[a["key"].(string)] = strings.Trim(string(b), `"`)
		}
	}
	return all
}

// named is the span of that name, which is nil if there is none.
func (r *receiver) named(name string) map[string]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if s["name"] == name {
			return s
		}
	}
	return nil
}
