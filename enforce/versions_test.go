package enforce_test

import (
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// TestVersionsShareState has two processes with different versions of a policy decide in turn.
// Together they admit what the larger limit admits.
func TestVersionsShareState(t *testing.T) {
	override := func(limit string) func(*policy.Config) {
		return func(c *policy.Config) {
			c.Overrides = []policy.Override{{Key: []string{"ada"}, Limits: []weir.Limit{weir.MustLimit(limit)}}}
		}
	}
	for name, tc := range map[string]struct {
		one, two string
		change   func(*policy.Config) // of the second
		most     int
	}{
		"count":    {"100/h", "101/h", nil, 101},
		"burst":    {"100/h burst 50", "100/h burst 60", nil, 60},
		"window":   {"100/h fixed_window", "101/h fixed_window", nil, 101},
		"sliding":  {"100/h sliding_window", "101/h sliding_window", nil, 101},
		"log":      {"100/h sliding_log", "101/h sliding_log", nil, 101},
		"queue":    {"100/h leaky_bucket burst 50", "101/h leaky_bucket burst 50", nil, 51},
		"override": {"100/h", "100/h", override("120/h"), 120},
		"shadow":   {"100/h", "101/h", func(c *policy.Config) { c.Mode = policy.Shadow }, 101},
		"rollout":  {"100/h", "101/h", func(c *policy.Config) { c.Percent = 1 }, 101},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *memstore.Store) {
				first, second := about("p", tc.one), about("p", tc.two)
				if tc.change != nil {
					tc.change(&second)
				}
				var one, two enforce.Config
				outcomes := []func() []string{observed(&one), observed(&two)}
				es := []*enforce.Enforcer{open(t, store, one, first), open(t, store, two, second)}
				admitted := 0
				for i := range 300 {
					var p enforce.Admission
					enter(t, es[i%2], &p)
					p.Exit(enforce.Result{})
					if e := outcomes[i%2](); e[0] == "ada p admitted" || e[0] == "ada p admitted shadow" {
						admitted++
					}
				}
				if admitted != tc.most {
					t.Errorf("%d admitted, want %d", admitted, tc.most)
				}
			})
		})
	}
}

// TestRaisedOften raises a rate by one every 50 minutes for a day, each time in a new process.
// It asks three times a minute, and the requests that are due are admitted.
func TestRaisedOften(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store) {
		admitted, due, raised := -100, 0.0, int64(0)
		var e *enforce.Enforcer
		for second := 0; second < 24*3600; second += 20 {
			if second%3000 == 0 {
				raised = int64(second / 3000)
				l, err := weir.NewLimit(weir.TokenBucket{Count: 100 + raised, Period: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				c := about("p")
				c.Limits = []weir.Limit{l}
				e = open(t, store, enforce.Config{}, c)
			}
			for i := 0; i == 0 || second == 0 && i < 200; i++ { // first the burst
				var p enforce.Admission
				if enter(t, e, &p) == enforce.Admitted {
					admitted++
				}
			}
			after(20 * time.Second)
			due += float64(100+raised) / 180
		}
		// Each raise adds one to the burst too.
		if least := int(due) - 1; admitted < least || admitted > least+2+int(raised) {
			t.Errorf("%d admitted in a day, want %d to %d", admitted, least, least+2+int(raised))
		}
	})
}

// TestExitAfterAChange checks that a request in flight settles its reservation when another
// process has changed the limit since.
func TestExitAfterAChange(t *testing.T) {
	for status, want := range map[int]int64{500: 6, 200: 5} {
		bubble(t, func(t *testing.T, store *memstore.Store) {
			before, now := about("p", "100/24h fixed_window"), about("p", "200/24h fixed_window")
			before.Count = policy.CountFailures
			var p, q enforce.Admission
			enter(t, open(t, store, enforce.Config{}, before), &p)
			for range 5 {
				enter(t, open(t, store, enforce.Config{}, now), &q)
			}
			if got := taken(t, store, "p", "200/24h fixed_window"); got != 6 {
				t.Errorf("%d taken after the change, want 6", got)
			}
			p.Exit(enforce.Result{Status: status})
			after(time.Hour) // beyond the TTL of the reservation
			if got := taken(t, store, "p", "200/24h fixed_window"); got != want {
				t.Errorf("%d taken after the exit with %d, want %d", got, status, want)
			}
		})
	}
}
