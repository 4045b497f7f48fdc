package run

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/metrics"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile"
)

// regionStores opens the stores of a process in a region, with a global Redis that is not there if the
// file names one.
func regionStores(t *testing.T, region, text string) (*stores, *weirfile.File) {
	t.Helper()
	f, err := weirfile.Parse("weir.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Complete(f, config.Source{Flags: map[string]string{"region": region}, Env: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	s, err := openStores(t.Context(), c, metrics.New(metrics.Config{}), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	s.divide(&generation{config: c, policies: f.Policies}, log)
	return s, f
}

const twoRegions = `
regions: { members: [{ name: eu, part: 60 }, { name: us, part: 30 }] }
policies:
  - { name: api, key: client.ip, limits: 100/h burst 10 }
  - { name: each, key: client.ip, limits: 100/h burst 10, regions: each }
`

// TestRegionParts checks that requests, fallbacks and limits without a policy get the part of the
// region, and policies with regions: each the whole limit.
func TestRegionParts(t *testing.T) {
	s, _ := regionStores(t, "eu", twoRegions)
	l := weir.MustLimit("100/h burst 10")
	for name, store := range map[string]weir.Store{"main": s.main, "local": s.local, "fallback": s.withFallback(policy.Local)} {
		for key, want := range map[string]int{"api|" + name: 6, "user:" + name: 6, "each|" + name: 10} {
			n := 0
			for d, err := store.Do(t.Context(), weir.Request{Key: key, Limit: l, N: 1}); d.OK; d, err = store.Do(t.Context(), weir.Request{Key: key, Limit: l, N: 1}) {
				if n++; err != nil || n > 100 {
					t.Fatal(n, err)
				}
			}
			if n != want {
				t.Errorf("%s admits %d for %s, want %d", name, n, key, want)
			}
		}
	}
	if x := s.explainRegion(t.Context(), "api|1", l); x == nil || x.Name != "eu" || x.Part != 60 || x.Bound != 60 || x.Rest != 0 || !strings.HasSuffix(x.Limit, "burst 6") {
		t.Errorf("explain = %+v", x)
	}
	if x := s.explainRegion(t.Context(), "each|1", l); x != nil {
		t.Errorf("explain of an undivided policy = %+v, want nil", x)
	}
	if st := s.regional.stats(); st.Part != 60 || st.Decisions.Own != 24 || st.Up {
		t.Errorf("stats %+v", st)
	}
}

// TestRegionWithoutPartDisconnected checks that a region without a part denies while the global Redis is
// unavailable, also by on_store_error: local.
func TestRegionWithoutPartDisconnected(t *testing.T) {
	s, _ := regionStores(t, "us", strings.Replace(twoRegions, "members: [{ name: eu, part: 60 }, { name: us, part: 30 }]",
		"global: redis://127.0.0.1:1, members: [{ name: eu, part: 60 }, { name: us, part: auto }]", 1))
	l := weir.MustLimit("100/h burst 10")
	if _, err := s.main.Do(t.Context(), weir.Request{Key: "api|1", Limit: l, N: 1}); err == nil {
		t.Error("a region without a part decides without the global Redis")
	}
	if d, err := s.local.Do(t.Context(), weir.Request{Key: "api|1", Limit: l, N: 1}); err != nil || d.OK {
		t.Errorf("on_store_error: local = %+v, %v, want a denial", d, err)
	}
	if d, err := s.main.Do(t.Context(), weir.Request{Key: "each|1", Limit: l, N: 1}); err != nil || !d.OK {
		t.Errorf("an undivided policy = %+v, %v, want an admission", d, err)
	}
	if x := s.explainRegion(t.Context(), "api|1", l); x == nil || x.Bound != 0 || x.Problem == "" {
		t.Errorf("explain = %+v, want a bound of 0 and a problem", x)
	}
}

// TestRegionsRefuse checks that policies of any source are refused if regions cannot divide them.
func TestRegionsRefuse(t *testing.T) {
	s, _ := regionStores(t, "eu", twoRegions)
	for text, want := range map[string]string{
		"policies: [{ name: api, key: client.ip, limits: 100/m fixed_window }]":                                                             "policy api: ",
		"policies: [{ name: api, key: client.ip, limits: 1000/s, candidate: 1/s }]":                                                         "60% of it is less than one",
		"policies: [{ name: api, key: client.ip, limits: 1000/s, overrides: [{ key: 203.0.113.7, limits: 100/s burst 100 interval }] }]":    "policy api: overrides: ",
		"policies: [{ name: api, key: client.ip, limits: 100/m fixed_window, regions: each }, { name: b, key: const:all, limits: 1000/s }]": "",
	} {
		f, err := weirfile.Parse("weir.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		err = s.regional.check(&generation{policies: f.Policies})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
