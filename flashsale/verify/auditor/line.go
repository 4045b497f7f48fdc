package auditor

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// A walker is a user's way through a line, as far as it was observed.
type walker struct {
	user           string
	sent, answered time.Time // of the call that gave the first ticket
	until          time.Time // of the first token: who was admitted together has the same
	rank           int64
	waited         time.Time // when the last call that was answered with "wait" was sent
}

func (j *judge) walkers(sale string) []walker {
	ways := map[string]*walker{}
	for _, o := range j.seen {
		if o.Sale != sale || o.User == "" || o.Trick != Honest || !ok(o.Status) || o.Action != Join && o.Action != Turn {
			continue
		}
		w := ways[o.User]
		switch {
		case w == nil && o.Action == Join:
			w = &walker{user: o.User, sent: o.Sent, answered: o.At}
			ways[o.User] = w
		case w == nil:
			continue
		case o.Action == Join && w.until.IsZero() && o.State == "passed":
			// A turn that passed unseen: its end is not known, and the next is another ticket's.
			delete(ways, o.User)
			continue
		}
		if w.until.IsZero() && o.Token != "" {
			w.until = o.Until
		}
		if o.State == "waiting" {
			w.waited = o.Sent
		}
		if w.rank == 0 {
			w.rank = o.Rank
		}
	}
	all := make([]walker, 0, len(ways))
	for _, w := range ways {
		all = append(all, *w)
	}
	slices.SortFunc(all, func(x, y walker) int { return cmp.Or(x.sent.Compare(y.sent), cmp.Compare(x.user, y.user)) })
	return all
}

// inOrder checks that nobody was admitted before more than one batch of those who had
// certainly come earlier: whose ticket was there before the other's was asked for. Of a
// shuffled sale, that the places of who came before the start have nothing to do with when
// they came.
func (j *judge) inOrder(s *saleRow) {
	all := j.walkers(s.id)
	switch s.queue {
	case "fifo":
		j.inversions(s, all)
	case "shuffled":
		start := time.UnixMilli(s.starts)
		early := slices.DeleteFunc(slices.Clone(all), func(w walker) bool { return !w.answered.Before(start) })
		late := slices.DeleteFunc(slices.Clone(all), func(w walker) bool { return w.sent.Before(start) })
		j.shuffled(s, early)
		j.inversions(s, late)
	}
}

func (j *judge) inversions(s *saleRow, all []walker) {
	// In the order of admission. Who was never seen admitted was not until the last time that
	// the answer was to wait, and is overtaken by who was admitted before that.
	admitted := slices.Clone(all)
	for i := range admitted {
		if w := &admitted[i]; w.until.IsZero() && !w.waited.IsZero() {
			w.until, w.user = w.waited.Add(time.Duration(s.tokenFor)*time.Millisecond), w.user+", who waits still,"
			w.sent = time.Time{} // overtakes nobody
		}
	}
	admitted = slices.DeleteFunc(admitted, func(w walker) bool { return w.until.IsZero() })
	if len(admitted) < 2 {
		return
	}
	slices.SortStableFunc(admitted, func(x, y walker) int { return x.until.Compare(y.until) })
	// For each, how many who were admitted earlier had come certainly later: asked after
	// this one had the answer. A tree of sums over the moments of asking counts them.
	asked := make([]time.Time, len(admitted))
	for i, w := range admitted {
		asked[i] = w.sent
	}
	slices.SortFunc(asked, time.Time.Compare)
	place := func(t time.Time) int { // how many asked at or before t
		i, _ := slices.BinarySearchFunc(asked, t, func(a, t time.Time) int {
			if a.After(t) {
				return 1
			}
			return -1
		})
		return i
	}
	sums := make([]int, len(asked)+1)
	add := func(i int) {
		for ; i < len(sums); i += i & -i {
			sums[i]++
		}
	}
	upTo := func(i int) (n int) {
		for ; i > 0; i -= i & -i {
			n += sums[i]
		}
		return n
	}
	before := 0
	for i := 0; i < len(admitted); {
		k := i
		for ; k < len(admitted) && admitted[k].until.Equal(admitted[i].until); k++ {
			w := admitted[k]
			overtook := before - upTo(place(w.answered))
			j.b.check(FairLine, overtook <= j.f.Batch, "sale %s: %d who came after %s were admitted before, and a batch is %d", s.id, overtook, w.user, j.f.Batch)
		}
		for ; i < k; i++ {
			if !admitted[i].sent.IsZero() {
				add(place(admitted[i].sent))
				before++
			}
		}
	}
}

// fewest is how many lots a correlation is judged by.
const fewest = 1000

func (j *judge) shuffled(s *saleRow, early []walker) {
	early = slices.DeleteFunc(early, func(w walker) bool { return w.rank == 0 })
	if len(early) < fewest {
		return
	}
	// Places instead of ranks and moments, so that no outlier weighs more.
	byRank := make([]int, len(early))
	for i := range byRank {
		byRank[i] = i
	}
	slices.SortFunc(byRank, func(x, y int) int { return cmp.Compare(early[x].rank, early[y].rank) })
	arrival, lot := make([]float64, len(early)), make([]float64, len(early))
	for place, i := range byRank {
		arrival[i], lot[i] = float64(i), float64(place)
	}
	// 0.05, or what chance alone exceeds once in a million times.
	bound := max(0.05, 4.9/math.Sqrt(float64(len(early))))
	r := correlation(arrival, lot)
	j.b.check(FairLine, math.Abs(r) <= bound, "sale %s: the places of %d who came before the start go with when they came: r = %.3f, at most %.3f",
		s.id, len(early), r, bound)
}

func correlation(x, y []float64) float64 {
	var mx, my float64
	for i := range x {
		mx, my = mx+x[i], my+y[i]
	}
	mx, my = mx/float64(len(x)), my/float64(len(y))
	var xy, xx, yy float64
	for i := range x {
		dx, dy := x[i]-mx, y[i]-my
		xy, xx, yy = xy+dx*dy, xx+dx*dx, yy+dy*dy
	}
	if xx == 0 || yy == 0 {
		return 0
	}
	return xy / math.Sqrt(xx*yy)
}

// told is how long after every unit is paid nobody is told to wait any more, beside the
// time after which one was told to ask again.
const told = time.Second

// answered is when the first answer came that an order is paid, in ms. A ledger writes down
// when a payment came to it: if it is slow, it takes it later, and who asked it learns of it
// later still.
func (j *judge) answered() map[string]int64 {
	first := map[string]int64{}
	for _, o := range j.seen {
		if o.Action != Pay || !ok(o.Status) || o.State != "paid" {
			continue
		}
		id, at := j.reservation(o.Receipt), o.At.UnixMilli()
		if before, seen := first[id]; !seen || at < before {
			first[id] = at
		}
	}
	return first
}

// soldOut checks that nobody is told to wait when every unit is paid, nor told that all are
// paid while they are not.
func (j *judge) soldOut(s *saleRow) {
	var last, known int64 // when the last unit was paid, and when the shop was sure of it
	var paid int64
	answered := j.answered()
	for _, o := range j.l.orders[s.id] {
		if o.state == "paid" {
			paid++
			last = max(last, o.changed)
			known = max(known, o.changed, answered[o.id])
		}
	}
	var stocked int64 // when units were last added
	for _, m := range j.l.movements[s.id] {
		if m.kind == "stock" {
			stocked = max(stocked, m.at)
		}
	}
	gone := time.UnixMilli(max(known, stocked))
	for _, o := range j.seen {
		if o.Sale != s.id {
			continue
		}
		if o.Reason == "sold_out" && o.At.UnixMilli() >= stocked {
			j.b.check(FairLine, paid >= s.stock && !o.At.Before(time.UnixMilli(last)), "sale %s: %s was told at %s that all is sold, with %d of %d units paid",
				s.id, o.User, clock(o.At), paid, s.stock)
		}
		if paid < s.stock || !ok(o.Status) || o.State != "waiting" || o.Action != Turn && o.Action != Join {
			continue
		}
		// Who asks when told to asks at most one interval after; the answer must know by then.
		j.b.check(FairLine, o.Sent.Sub(gone) <= told, "sale %s: %s asked at %s and was told to wait, and all units were known to be paid at %s",
			s.id, o.User, clock(o.Sent), clock(gone))
	}
}
