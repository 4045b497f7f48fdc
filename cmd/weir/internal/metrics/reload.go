package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/floodweir/weir/policy"
)

// Reloaded counts a reload. If err is nil, set is in force from now on under the name
// version, and series of policies that it does not contain end.
func (m *Metrics) Reloaded(version string, set *policy.Set, err error) {
	if err != nil {
		m.reloads.WithLabelValues("failure").Inc()
		m.lastReloadOK.Set(0)
		return
	}
	m.reloads.WithLabelValues("success").Inc()
	m.lastReloadOK.Set(1)
	m.reloadTime.SetToCurrentTime()
	m.policyVersions.Reset()
	m.policyVersions.WithLabelValues(label(version)).Set(1)
	if set == nil {
		return
	}
	removed := m.policies.prune(func(name string) bool {
		name, _, _ = strings.Cut(name, "~") // a candidate is kept with its policy
		return set.Policy(name) != nil
	})
	for _, name := range removed {
		l := prometheus.Labels{"policy": name}
		for _, v := range []*prometheus.CounterVec{m.decisions, m.shadow, m.degraded, m.expressions, m.unsettled, m.unpriced, m.exhausted, m.borrowed} {
			v.DeletePartialMatch(l)
		}
	}
	for _, d := range *m.interfaces.Load() {
		d.n.Store(0)
		d.known.Clear()
	}
}
