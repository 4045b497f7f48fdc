package metrics_test

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/metrics"
)

// TestRateLimitNames checks the names of envoyproxy/ratelimit in both formats.
func TestRateLimitNames(t *testing.T) {
	m := metrics.New(metrics.Config{})
	m.DescriptorHits("edge", "a_1", metrics.Hits{Total: 3, Over: 1, Near: 1, Within: 2})
	m.DescriptorHits("edge", "a.b.c", metrics.Hits{Total: 4})
	m.DescriptorHits("edge", "a.b.d", metrics.Hits{Total: 5})
	m.Reloaded("", nil, nil)
	m.Reloaded("", nil, io.EOF)
	text, prometheus := httptest.NewRecorder(), httptest.NewRecorder()
	m.RateLimit().Text().ServeHTTP(text, httptest.NewRequest("GET", "/", nil))
	m.RateLimit().Prometheus().ServeHTTP(prometheus, httptest.NewRequest("GET", "/", nil))
	for _, test := range []struct{ got, want string }{
		{text.Body.String(), "ratelimit.service.config_load_error: 1\nratelimit.service.config_load_success: 1\n"},
		{text.Body.String(), "ratelimit.service.rate_limit.edge.a_1.total_hits: 3\nratelimit.service.rate_limit.edge.a_1.within_limit: 2\n"},
		{text.Body.String(), "ratelimit.service.rate_limit.edge.a.b.c.total_hits: 4\n"},
		{prometheus.Body.String(), "\nratelimit_service_config_load_error 1\n"},
		{prometheus.Body.String(), "\nratelimit_service_rate_limit_over_limit{domain=\"edge\",key1=\"a_1\"} 1\n"},
		{prometheus.Body.String(), "\nratelimit_service_rate_limit_total_hits{domain=\"edge\",key1=\"a\",key2=\"b\"} 9\n"},
		{prometheus.Body.String(), "\nweir_policies_last_reload_successful 0\n"},
	} {
		if !strings.Contains(test.got, test.want) {
			t.Errorf("want %q in\n%s", test.want, test.got)
		}
	}
}
