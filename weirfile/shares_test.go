package weirfile_test

import (
	"testing"
	"time"

	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile"
)

// TestShares checks the shares of each policy of a file that has a default.
func TestShares(t *testing.T) {
	f, err := weirfile.Parse("weir.yaml", []byte(`
shares: { largest: 50 }
policies:
  - { name: default, key: client.ip, limits: 1000/s }
  - { name: own, key: client.ip, limits: [1000/s, 100000/h sliding_window], shares: { lease: 5s } }
  - { name: auto, key: client.ip, limits: 1000/s, shares: auto, overrides: [{ key: 203.0.113.7, limits: 5/s }], candidate: [10/s] }
  - { name: "off", key: client.ip, limits: 1000/s, shares: off }
  - { name: small, key: client.ip, limits: 10/s }
  - { name: mixed, key: client.ip, limits: [1000/s, 5000/24h fixed_window] }
  - { name: failing, key: client.ip, limits: 1000/s, count: failures }
  - { name: tenants, key: "header:X-Tenant", limits: 1000/s, tenants: [{ key: "*", burst: 10 }] }
  - { name: blocked, key: client.ip, limits: 0 }
  - { name: budget, budget: { unit: tokens, levels: [{ name: all, key: const:all, limits: 1000000/h }] } }
`))
	if err != nil {
		t.Fatal(err)
	}
	of := policy.Shares{Auto: true, Largest: 50}
	if f.Shares != of {
		t.Errorf("Shares = %+v, want %+v", f.Shares, of)
	}
	want := map[string]policy.Shares{"default": of, "own": {Auto: true, Lease: 5 * time.Second}, "auto": {Auto: true}}
	for _, p := range f.Policies.Policies() {
		if got := p.Config().Shares; got != want[p.Name()] {
			t.Errorf("Shares of %s = %+v, want %+v", p.Name(), got, want[p.Name()])
		}
	}
}
