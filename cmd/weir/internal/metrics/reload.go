package metrics

import (
	"strings"

	library "github.com/floodweir/weir/metrics"
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
	m.policyVersions.WithLabelValues(library.Label(version)).Set(1)
	if set == nil {
		return
	}
	m.Retain(func(name string) bool {
		name, _, _ = strings.Cut(name, "~") // a candidate is kept with its policy
		return set.Policy(name) != nil
	})
}
