package explain_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/explain"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/share"
)

// TestShares explains a limit that is divided, one that stays strict, and one whose ledger is
// unavailable.
func TestShares(t *testing.T) {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	p, err := policy.New(policy.Config{
		Name: "api", Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: []weir.Limit{weir.MustLimit("1000/s")},
		Overrides: []policy.Override{{Key: []string{"203.0.113.9"}, Limits: []weir.Limit{weir.MustLimit("5/s")}}},
		Shares:    policy.Shares{Auto: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.NewSet(p)
	if err != nil {
		t.Fatal(err)
	}
	held := func(context.Context, string, weir.Limit) (*share.Division, error) {
		return &share.Division{Remainder: 0.25, Stranded: 0.031, Holders: []share.Holder{
			{ID: 255, Self: true, Rate: 0.5, Demand: 480, Lease: 10 * time.Second}, {ID: 16, Rate: 0.25, Demand: 210, Lease: time.Second},
		}}, nil
	}
	away := func(context.Context, string, weir.Limit) (*share.Division, error) {
		return nil, fmt.Errorf("ledger: %w: refused", weir.ErrUnavailable)
	}
	for _, test := range []struct {
		name, ip string
		shares   explain.Division
		want     string
	}{
		{"off", "203.0.113.7", nil, ""},
		{"by the policies", "203.0.113.7", explain.DivisionOf(set), "      divided: no process holds a share\n"},
		{"holders", "203.0.113.7", held, "      divided: 2 processes hold 75.0% of the rate, 3.1% more than their demand\n"},
		{"override", "203.0.113.9", explain.DivisionOf(set), "      not divided: its capacity is less than 100\n"},
		{"unavailable", "203.0.113.7", away, "      shares unknown: ledger: store unavailable: refused\n"},
	} {
		a, err := explain.Explain(t.Context(), store, test.shares, set, explain.Question{URL: "/", ClientIP: test.ip})
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := a.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		_, got, _ := strings.Cut(b.String(), "<- decides\n")
		if got != test.want {
			t.Errorf("%s: text = %q, want %q", test.name, got, test.want)
		}
		if test.name == "holders" {
			h := a.Policies[0].Limits[0].Shares.Holders
			if len(h) != 2 || h[0].ID != "ff" || !h[0].Self || h[1].Rate != 0.25 || h[1].Lease != explain.Seconds(time.Second) {
				t.Errorf("holders = %+v, want both", h)
			}
		}
	}
}
