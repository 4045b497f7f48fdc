package share

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"
)

// A trip makes the exchanges of a batch of ops, by one Load and one Swap for all of them. Exchanges
// whose rows another process has written meanwhile repeat them. Those that give something back after the Load
// repeat that. The steps are names, loaded, and swapped while there are swaps, until names returns none.
type trip struct {
	c       *settings
	clock   *clock
	waiting []*exchange // for a Load
	loading []*exchange
	writing []*exchange // in the order of their swaps
	swaps   []Swap
	sent    moment
	random  func(n int64) int64
	pause   int64 // µs before the next Load
}

// maxTries bounds the repetitions. Each means that another process has written the row.
const maxTries = 50

// farTrip is the time of a Load and a Swap, in µs, from which an exchange pauses before it is repeated.
// Otherwise processes whose calls take equally long would win in turns, and another one never.
const farTrip = 20_000

var errContended = errors.New("other processes wrote the row too often; nothing was charged")

func newTrip(c *settings, k *clock, ops []*op) *trip {
	t := &trip{c: c, clock: k, random: rand.Int64N}
	m := k.now()
	byEntry := map[*entry]int{}
	var groups [][]*op
	for _, o := range ops {
		i, ok := byEntry[o.entry]
		if !ok {
			i = len(groups)
			byEntry[o.entry] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], o)
	}
	for _, group := range groups {
		t.waiting = append(t.waiting, begin(c, group[0].entry, group, m))
	}
	return t
}

// names returns the names of the rows to load, at most MaxBatch; none if all exchanges have ended.
func (t *trip) names() (names []string) {
	t.loading, t.pause = t.loading[:0], 0
	used := map[string]bool{}
	later := t.waiting[:0:0]
	for _, x := range t.waiting {
		own := []string{x.entry.name}
		for _, d := range x.former() {
			own = append(own, rowName(x.entry.key, d.Limit))
		}
		taken := func(name string) bool { return used[name] }
		if slices.ContainsFunc(own, taken) || len(names)+len(own) > MaxBatch {
			later = append(later, x)
			continue
		}
		for _, name := range own {
			used[name] = true
		}
		x.rows = len(own)
		names = append(names, own...)
		t.loading = append(t.loading, x)
	}
	t.waiting = later
	t.sent = t.clock.now()
	return names
}

// loaded continues with the rows, and returns the swaps; none if there is nothing to write.
func (t *trip) loaded(rows []Stored, now time.Time, err error) []Swap {
	received := t.clock.now()
	t.writing, t.swaps = nil, nil
	if err == nil {
		t.clock.adjust(now.UnixMicro(), t.sent, received)
		received = t.clock.now()
	}
	for _, x := range t.loading {
		if err != nil {
			x.moment = received
			x.end(t.c, false, false, err)
			continue
		}
		t.read(x, rows[:x.rows], now, t.sent, received)
		rows = rows[x.rows:]
	}
	return t.toSend()
}

// read continues an exchange with its rows.
func (t *trip) read(x *exchange, rows []Stored, now time.Time, sent, received moment) {
	s, write, err := x.load(t.c, rows, now.UnixMicro(), sent, received)
	if x.again {
		t.waiting = append(t.waiting, x)
		return
	}
	if err != nil || !write {
		x.end(t.c, false, false, err)
		return
	}
	t.writing = append(t.writing, x)
	t.swaps = append(t.swaps, s)
}

// toSend returns the swaps, which are sent now.
func (t *trip) toSend() []Swap {
	sent := t.clock.now()
	for _, x := range t.writing {
		x.sent = sent
	}
	return t.swaps
}

// swapped continues after the swaps, and returns those that repeat some of them by the rows that the ledger
// has found.
func (t *trip) swapped(err error) []Swap {
	m := t.clock.now()
	writing, swaps := t.writing, t.swaps
	t.writing, t.swaps = nil, nil
	for i, x := range writing {
		s := &swaps[i]
		x.moment = m
		switch {
		case err != nil || s.Done:
			x.end(t.c, true, true, err)
			continue
		case x.tries == maxTries:
			x.end(t.c, false, false, unavailable("swap", errContended))
			continue
		}
		x.tries++
		t.c.conflicts.Add(1)
		if x.rows == 1 && !s.At.IsZero() {
			t.clock.adjust(s.At.UnixMicro(), x.sent, m)
			t.read(x, []Stored{s.Found}, s.At, x.sent, t.clock.now())
			continue
		}
		t.waiting = append(t.waiting, x)
		if took := m.local - t.sent.local; took >= farTrip {
			t.pause = t.random(took)
		}
	}
	return t.toSend()
}
