package traffic_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/traffic"
	"github.com/floodweir/weir/enforce"
)

// A clocked is a recorder whose clock the test sets.
type clocked struct {
	*traffic.Recorder
	now time.Time
}

func newClocked(second int64) *clocked {
	c := &clocked{now: time.Unix(second, 0)}
	c.Recorder = traffic.New(traffic.Config{Seed: 1, Now: func() time.Time { return c.now }})
	return c
}

// deny records denials and moves the clock.
func (c *clocked) deny(t testing.TB, name string, n int, d time.Duration) {
	p := named(t, name)
	for range n {
		c.Observe(enforce.Event{Policy: p, Outcome: enforce.Denied, Key: name + "|1:a"})
	}
	c.now = c.now.Add(d)
	c.Collect(c.now)
}

// denials returns the denials by row; -1 for a time without data.
func denials(s traffic.Series) (all []int) {
	for _, row := range s.Rows {
		if row == nil {
			all = append(all, -1)
		} else {
			all = append(all, int(row.Counts[traffic.Denied]))
		}
	}
	return all
}

const begin = 1_700_000_000 // divisible by 10

// TestGaps checks seconds in which nothing was collected, and a clock that goes back.
func TestGaps(t *testing.T) {
	for _, tc := range []struct {
		name  string
		steps []time.Duration // after 1, 2, 3, ... denials
		want  []int
	}{
		{"each second", []time.Duration{time.Second, time.Second, time.Second}, []int{1, 2, 3}},
		{"within a second", []time.Duration{400 * time.Millisecond, 400 * time.Millisecond, 400 * time.Millisecond, time.Second}, []int{6, 4}},
		{"a gap of two seconds", []time.Duration{time.Second, 3 * time.Second, time.Second}, []int{1, -1, -1, 2, 3}},
		{"a gap longer than the history", []time.Duration{time.Second, time.Hour, time.Second}, nil},
		{"one second back", []time.Duration{time.Second, time.Second, time.Second, -time.Second, time.Second}, []int{1, 2, 3 + 4 + 5}},
		{"an hour back", []time.Duration{time.Second, time.Second, -time.Hour, time.Second}, []int{3 + 4}},
	} {
		c := newClocked(begin)
		for i, d := range tc.steps {
			c.deny(t, "login", i+1, d)
		}
		for _, policy := range []string{"", "login"} {
			s := c.History().Series(policy, time.Time{})
			if got := denials(s); tc.want != nil && !slices.Equal(got, tc.want) {
				t.Errorf("%s: %q: denials %v, want %v", tc.name, policy, got, tc.want)
			}
			if tc.want == nil && (len(s.Rows) > 600 || s.Rows[len(s.Rows)-1] == nil || s.Rows[len(s.Rows)-1].Counts[traffic.Denied] != 3) {
				t.Errorf("%s: %q: %d rows, want the last with 3 denials", tc.name, policy, len(s.Rows))
			}
		}
	}
}

// TestLevels checks that a series of an hour has steps of ten seconds, and that policies above 64
// have them too.
func TestLevels(t *testing.T) {
	c := newClocked(begin)
	for range 700 {
		c.deny(t, "login", 2, time.Second)
	}
	fine, coarse := c.History().Series("login", c.now.Add(-time.Minute)), c.History().Series("login", time.Time{})
	if fine.Step != 1 || len(fine.Rows) != 60 || fine.From != begin+640 || fine.Rows[59].Counts[traffic.Denied] != 2 {
		t.Errorf("last minute: step %d, %d rows from %d, want 60 of a second", fine.Step, len(fine.Rows), fine.From-begin)
	}
	if coarse.Step != 10 || len(coarse.Rows) != 70 || coarse.From != begin || coarse.Rows[69].Counts[traffic.Denied] != 20 {
		t.Errorf("all: step %d, %d rows from %d, want 70 of ten seconds", coarse.Step, len(coarse.Rows), coarse.From-begin)
	}
	for i := range 1100 {
		c.deny(t, fmt.Sprint("p", i), 1, 0)
	}
	c.deny(t, "login", 0, 10*time.Second)
	since := c.now.Add(-10 * time.Second)
	steps := map[int]int{}
	for i := range 1100 {
		s := c.History().Series(fmt.Sprint("p", i), since)
		if slices.Contains(denials(s), 1) {
			steps[s.Step]++
		}
	}
	if steps[1] != 63 || steps[10] != 999-63 {
		t.Errorf("policies by step: %v, want 63 by second, and 999 with login in all", steps)
	}
	if n := len(c.History().Policies()); n != 1000 {
		t.Errorf("%d policies, want 1000", n)
	}
	if got := c.History().Series("", since).Rows[9]; got == nil || got.Counts[traffic.Denied] != 1100 {
		t.Errorf("all policies: %v, want 1100 denials", got)
	}
}

// TestMerge checks that the history of several nodes is the sum of theirs. Snapshots may come in any
// order, be repeated, and up to two in a row be lost.
func TestMerge(t *testing.T) {
	all := traffic.NewHistory()
	nodes := map[string]*clocked{"a": newClocked(begin), "b": newClocked(begin), "c": newClocked(begin)}
	want := make([]int, 60)
	rng := rand.New(rand.NewPCG(1, 1))
	for s := range want {
		for name, c := range nodes {
			n := rng.IntN(5)
			want[s] += n
			c.deny(t, "login", n, time.Second)
			if s%3 == int(name[0]-'a') || s > 55 || rng.IntN(2) == 0 {
				data := c.Snapshot()
				for range 1 + rng.IntN(2) {
					if err := all.Merge(name, data, c.now); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	for _, policy := range []string{"", "login"} {
		if got := denials(all.Series(policy, time.Unix(begin, 0))); !slices.Equal(got, want) {
			t.Errorf("%q: denials %v, want %v", policy, got, want)
		}
	}
}

// TestMergeRefuses checks the time of a snapshot, and the number of nodes.
func TestMergeRefuses(t *testing.T) {
	c := newClocked(begin)
	c.deny(t, "login", 1, time.Second)
	all := traffic.NewHistory()
	for _, d := range []time.Duration{-2 * time.Minute, 2 * time.Minute} {
		if err := all.Merge("a", c.Snapshot(), c.now.Add(d)); err == nil || errors.Is(err, traffic.ErrInvalid) {
			t.Errorf("merge of a snapshot %v away: %v, want an error about its time", d, err)
		}
	}
	for i := range 1025 {
		if err := all.Merge(fmt.Sprint(i), c.Snapshot(), c.now); (err != nil) != (i == 1024) {
			t.Errorf("node %d: %v, want an error from 1024 on", i, err)
		}
	}
}

// TestSnapshot checks that a snapshot of many policies fits, with the busiest policies.
func TestSnapshot(t *testing.T) {
	c := newClocked(begin)
	for i := range 64 {
		p := named(t, fmt.Sprintf("policy-with-a-long-name-for-the-snapshot-%02d", i))
		for range i {
			c.Observe(enforce.Event{Policy: p, Outcome: enforce.Denied})
			c.Observe(enforce.Event{Policy: p, Outcome: enforce.Admitted, Took: time.Duration(i) * time.Microsecond})
		}
	}
	c.deny(t, "login", 1, time.Second)
	data := c.Snapshot()
	all := traffic.NewHistory()
	if err := all.Merge("a", data, c.now); err != nil || len(data) > traffic.MaxSnapshot {
		t.Fatalf("%d bytes: %v, want at most 4 KiB", len(data), err)
	}
	names := all.Policies()
	if len(names) < 30 || names[len(names)-1] != "policy-with-a-long-name-for-the-snapshot-63" {
		t.Errorf("policies %q, want 30 or more of the busiest", names)
	}
	got, want := all.Series("", time.Unix(begin, 0)).Rows, c.History().Series("", time.Unix(begin, 0)).Rows
	if len(got) != 1 || *got[0] != *want[0] || got[0].Counts[traffic.Denied] != 64*63/2+1 {
		t.Errorf("all policies %v, want %v", got, want)
	}
}

// FuzzMerge checks that a snapshot of another node never panics, and that one that is accepted
// fits into the history.
func FuzzMerge(f *testing.F) {
	c := newClocked(begin)
	c.deny(f, "login", 3, time.Second)
	f.Add(c.Snapshot())
	f.Add([]byte{1, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		all := traffic.NewHistory()
		err := all.Merge("a", data, c.now)
		if s := all.Series("", time.Unix(begin, 0)); err != nil && len(s.Rows) > 0 {
			t.Errorf("%v, and %d rows", err, len(s.Rows))
		}
		for _, name := range all.Policies() {
			if len(name) > 256 {
				t.Errorf("a policy name of %d bytes", len(name))
			}
		}
	})
}
