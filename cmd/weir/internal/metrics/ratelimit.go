package metrics

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// A RateLimit serves the metrics, and those of the gRPC interface under the names of
// envoyproxy/ratelimit too.
type RateLimit struct{ m *Metrics }

// RateLimit returns the metrics with the names of envoyproxy/ratelimit.
func (m *Metrics) RateLimit() RateLimit { return RateLimit{m} }

// The families that are renamed.
const (
	hitsFamily   = "weir_ratelimit_hits_total"
	reloadFamily = "weir_policies_reload_total"
)

// reloadNames has the names of the results of a reload.
var reloadNames = map[string]string{"success": "config_load_success", "failure": "config_load_error"}

// Text serves the counters as lines of the form "ratelimit.service.NAME: VALUE".
func (r RateLimit) Text() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		families, _ := r.m.registry.Gather() // without those that fail
		var lines []string
		each(families, func(family string, l map[string]string, value float64) {
			name := "ratelimit.service." + reloadNames[l["result"]]
			if family == hitsFamily {
				name = strings.Join([]string{"ratelimit.service.rate_limit", l["domain"], l["descriptor"], l["result"]}, ".")
			}
			lines = append(lines, fmt.Sprintf("%s: %.0f\n", name, value))
		})
		slices.Sort(lines)
		for _, line := range lines {
			_, _ = w.Write([]byte(line)) // fails only if the client disconnected
		}
	})
}

// Prometheus serves all metrics, and those of envoyproxy/ratelimit with the labels of its
// mapper for Prometheus: domain, key1 and key2.
func (r RateLimit) Prometheus() http.Handler {
	return promhttp.HandlerFor(prometheus.GathererFunc(r.gather), promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4,
	})
}

func (r RateLimit) gather() ([]*dto.MetricFamily, error) {
	families, err := r.m.registry.Gather()
	named := map[string]map[[3]string]float64{} // by family, and domain, key1 and key2
	each(families, func(family string, l map[string]string, value float64) {
		name, labels := "ratelimit_service_"+reloadNames[l["result"]], [3]string{}
		if family == hitsFamily {
			// Deeper descriptors count for the first two of their keys.
			keys := append(strings.SplitN(l["descriptor"], ".", 3), "")
			name, labels = "ratelimit_service_rate_limit_"+l["result"], [3]string{l["domain"], keys[0], keys[1]}
		}
		if named[name] == nil {
			named[name] = map[[3]string]float64{}
		}
		named[name][labels] += value
	})
	for name, values := range named {
		help, counter := "Counter of envoyproxy/ratelimit: "+name+".", dto.MetricType_COUNTER
		f := &dto.MetricFamily{Name: &name, Help: &help, Type: &counter}
		for labels, value := range values {
			f.Metric = append(f.Metric, &dto.Metric{Label: pairs(labels), Counter: &dto.Counter{Value: &value}})
		}
		slices.SortFunc(f.Metric, func(a, b *dto.Metric) int { return cmp.Compare(a.String(), b.String()) })
		families = append(families, f)
	}
	slices.SortFunc(families, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return families, err
}

// pairs returns the labels domain, key1 and key2 that are not empty.
func pairs(values [3]string) (all []*dto.LabelPair) {
	for i, name := range []string{"domain", "key1", "key2"} {
		if value := values[i]; value != "" {
			all = append(all, &dto.LabelPair{Name: &name, Value: &value})
		}
	}
	return all
}

// each calls f with the labels and the value of each counter that is renamed.
func each(families []*dto.MetricFamily, f func(family string, labels map[string]string, value float64)) {
	for _, family := range families {
		if n := family.GetName(); n != hitsFamily && n != reloadFamily {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range metric.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["result"] != other {
				f(family.GetName(), labels, metric.GetCounter().GetValue())
			}
		}
	}
}
