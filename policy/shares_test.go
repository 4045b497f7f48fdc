package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// TestShares checks the bounds of shares, and finds those of a key.
func TestShares(t *testing.T) {
	with := func(s policy.Shares) policy.Config {
		return policy.Config{
			Name: "api", Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: []weir.Limit{weir.MustLimit("1000/s")},
			Candidate: []weir.Limit{weir.MustLimit("2000/s")}, Shares: s,
		}
	}
	for want, s := range map[string]policy.Shares{
		"shares: want auto":              {Largest: 50},
		"shares.lease: 10ms: want 1s":    {Auto: true, Lease: 10 * time.Millisecond},
		"shares.lease: 2h0m0s: want":     {Auto: true, Lease: 2 * time.Hour},
		"shares.largest: 101: want 1 to": {Auto: true, Largest: 101},
		"shares.largest: -1: want 1 to":  {Auto: true, Largest: -1},
	} {
		if _, err := policy.New(with(s)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New with %+v = %v, want %q", s, err, want)
		}
	}
	shares := policy.Shares{Auto: true, Lease: time.Minute, Largest: 25}
	p, err := policy.New(with(shares))
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.NewSet(p)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]bool{
		"api|11:203.0.113.7": true, "api~candidate|11:203.0.113.7": true, "api": true,
		"api2|11:203.0.113.7": false, "user:42": false, "|envoy|3:api": false,
	} {
		if got, ok := set.Shares(key); ok != want || ok && got != shares {
			t.Errorf("Shares(%q) = %+v, %v, want %v", key, got, ok, want)
		}
	}
}
