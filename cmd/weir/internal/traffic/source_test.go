package traffic_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/traffic"
	"github.com/floodweir/weir/cmd/weir/internal/traffic/keystats"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
)

// TestSource checks the counts and the name of a source.
func TestSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := traffic.New(traffic.Config{})
		go r.Run(t.Context())
		counted := r.Source("interface:http")
		for _, column := range []int{traffic.Admitted, traffic.Denied, traffic.Overloaded} {
			counted.Count(column, time.Millisecond)
			counted.Count(column, 0)
		}
		r.Source("grpc:a\nb"+strings.Repeat("\xff", 300)).Count(traffic.Shadow, 0)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		names := r.History().Policies()
		if len(names) != 2 || !strings.HasPrefix(names[0], "grpc:a_b_") || len(names[0]) > 256 {
			t.Errorf("policies %q, want two printable names", names)
		}
		sum := traffic.Counts{}
		for _, row := range r.History().Series("interface:http", time.Now().Add(-time.Minute)).Rows {
			if row != nil {
				for i, n := range row.Counts {
					sum[i] += n
				}
			}
		}
		if want := (traffic.Counts{traffic.Admitted: 2, traffic.Denied: 2, traffic.Overloaded: 2}); sum != want {
			t.Errorf("counts %v, want %v", sum, want)
		}
		if err := traffic.NewHistory().Merge("node", r.Snapshot(), time.Now()); err != nil {
			t.Errorf("the snapshot with these names is invalid: %v", err)
		}
	})
}

// TestSetSeed checks that samples of two recorders can be merged after one took the seed of the
// other.
func TestSetSeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := traffic.New(traffic.Config{Seed: 1}), traffic.New(traffic.Config{Seed: 2})
		go one.Run(t.Context())
		go two.Run(t.Context())
		p, err := policy.New(policy.Config{Name: "login", Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: []weir.Limit{weir.MustLimit("5/m")}})
		if err != nil {
			t.Fatal(err)
		}
		merge := func() error {
			for range 3 {
				for _, r := range []*traffic.Recorder{one, two} {
					r.View("login")
					r.Observe(enforce.Event{Policy: p, Key: "k", Outcome: enforce.Denied, Cost: 1})
				}
				time.Sleep(2 * time.Second)
			}
			synctest.Wait()
			_, err := keystats.Merge(one.Sample("login"), two.Sample("login"))
			return err
		}
		if merge() == nil {
			t.Error("samples with different seeds were merged")
		}
		two.SetSeed(1)
		if err := merge(); err != nil {
			t.Errorf("samples with one seed: %v", err)
		}
		if s := two.Sample("login"); s == nil {
			t.Error("want a sample with the new seed")
		}
	})
}
