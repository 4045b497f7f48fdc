package e2e_test

import (
	"testing"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
)

// TestLongDeadline checks that a decision waits for Redis until the deadline, also if that is longer
// than the default timeouts of the store and of its client.
func TestLongDeadline(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := serve(t, programtest.Weir(t), "policies: [{ name: api, key: header:X-Tenant, limits: 10/h, on_store_error: closed }]",
		"--store", "redis://"+redis.Addr, "--deadline", "50s")
	redis.Do(t, "CLIENT", "PAUSE", "2500")
	if d := takeFor(t, s.api, "a"); !d.OK || d.Degraded != "" {
		t.Errorf("decision %+v, want one of Redis", d)
	}
}
