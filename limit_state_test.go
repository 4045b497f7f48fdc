package weir_test

import (
	"testing"

	"github.com/floodweir/weir"
)

// TestLimitState checks that shared leaky buckets of one rate have one state, and every
// other limit has its own.
func TestLimitState(t *testing.T) {
	for text, want := range map[string]string{
		"10/s":                                           "10/s burst 10",
		"10/s burst 20":                                  "10/s burst 20",
		"10/s leaky_bucket":                              "10/s leaky_bucket burst 0",
		"10/s leaky_bucket burst 20 nginx":               "10/s leaky_bucket burst 20 nginx",
		"10/s leaky_bucket shared":                       "10/s leaky_bucket",
		"10/s leaky_bucket shared burst 20":              "10/s leaky_bucket",
		"10/s leaky_bucket burst 20 queue shared":        "10/s leaky_bucket",
		"10/1s leaky_bucket nginx shared":                "10/s leaky_bucket nginx",
		"10/s leaky_bucket burst 9 delay 8 nginx shared": "10/s leaky_bucket nginx",
		"600/m leaky_bucket nginx shared":                "600/m leaky_bucket nginx",
		"5/m fixed_window":                               "5/m fixed_window",
		"20 concurrency":                                 "20 concurrency lease 1m",
		"20 concurrency shared":                          "concurrency",
		"30 concurrency lease 5s shared":                 "concurrency",
	} {
		l := weir.MustLimit(text)
		if got := l.Spec().State; got != want {
			t.Errorf("%s: state %q, want %q", text, got, want)
		}
		for _, other := range []string{"10/s leaky_bucket burst 3", "10/s leaky_bucket burst 3 shared", "10/s leaky_bucket nginx shared", "10/s"} {
			o := weir.MustLimit(other)
			if (l.Spec().State == o.Spec().State) != (l.Spec().StateID == o.Spec().StateID) || l.Equal(o) && l.Spec().State != o.Spec().State {
				t.Errorf("%s and %s: states %q and %q, fingerprints %x and %x", l, o, l.Spec().State, o.Spec().State, l.Spec().StateID, o.Spec().StateID)
			}
		}
	}
	if z := (weir.Limit{}); z.Spec().State != "" || z.Spec().StateID != 0 {
		t.Errorf("the zero Limit has the state %q, %x", z.Spec().State, z.Spec().StateID)
	}
}
