package benchmarks

import (
	"testing"

	"github.com/floodweir/weir/benchmarks/compare"
)

// localRows have one limiter without keys.
func localRows() (rows []compare.Row) {
	for _, r := range []struct {
		name, title string
		denied      bool
		goroutines  int
		goals       []compare.Goal
	}{
		{"local/allowed", "one limiter in this process, allowed, 1 core", false, 1,
			[]compare.Goal{{Contender: "floor", Column: "cpu", Least: 1 / 1.2}, {Contender: "x-time-rate", Column: "cpu", Least: 2.4}}},
		{"local/allowed-2", "the same on 2 cores", false, 2, nil},
		{"local/denied", "one limiter in this process, denied, 1 core", true, 1, nil},
		{"local/denied-2", "the same on 2 cores", true, 2,
			[]compare.Goal{{Contender: "floor", Column: "wall", Least: 1 / 1.2}, {Contender: "x-time-rate", Column: "wall", Least: 6}}},
	} {
		row := compare.Row{Name: r.name, Title: r.title, Base: "weir", Columns: local, Goals: r.goals}
		for _, p := range localPeers {
			if p.name == "uber" && r.denied {
				continue // it waits
			}
			row.Contenders = append(row.Contenders, compare.Contender{Name: p.name, Open: func(t testing.TB) compare.Measure {
				allow := p.open(t, r.denied)
				allow() // the one token of a limit that denies
				if allow() == r.denied {
					t.Fatalf("allowed %v, want %v", r.denied, !r.denied)
				}
				return repeat(r.goroutines, func(n int) {
					for range n {
						allow()
					}
				})
			}})
		}
		rows = append(rows, row)
	}
	return rows
}
