package auditor

import (
	"github.com/floodweir/weir/flashsale/verify/calllog"

	"cmp"
	"math"
	"slices"
	"time"
)

// A waiter is a user's way through the queue, as far as it was observed.
type waiter struct {
	soldOut        bool
	user           string
	sent, answered time.Time // of the call that returned the first ticket
	until          time.Time // of the first token; equal for all users of one admission batch
	rank           int64
	lastWait       time.Time // when the last call before the token that returned "waiting", or the first "sold out" after it, was sent
}

func (c *checker) waiters(sale string) []waiter {
	ways := map[string]*waiter{}
	for _, o := range c.seen {
		soldOut := o.Reason == "sold_out" && ways[o.User] != nil && !ways[o.User].soldOut
		if o.Sale != sale || o.User == "" || o.Misuse != calllog.Valid || !ok(o.Status) && !soldOut || o.Action != calllog.Join && o.Action != calllog.Poll {
			continue
		}
		w := ways[o.User]
		switch {
		case w == nil && o.Action == calllog.Join:
			w = &waiter{user: o.User, sent: o.Sent, answered: o.At}
			ways[o.User] = w
		case w == nil:
			continue
		case o.Action == calllog.Join && w.until.IsZero() && o.State == "passed":
			// An unobserved admission has expired: its end is unknown, and the next ticket is another
			// one.
			delete(ways, o.User)
			continue
		}
		if w.until.IsZero() && o.Token != "" {
			w.until = o.Until
		}
		if w.until.IsZero() && (o.State == "waiting" || soldOut && !w.lastWait.IsZero()) {
			w.lastWait, w.soldOut = o.Sent, soldOut
		}
		if w.rank == 0 {
			w.rank = o.Rank
		}
	}
	all := make([]waiter, 0, len(ways))
	for _, w := range ways {
		all = append(all, *w)
	}
	slices.SortFunc(all, func(x, y waiter) int { return cmp.Or(x.sent.Compare(y.sent), cmp.Compare(x.user, y.user)) })
	return all
}

// queueOrder checks that at most one batch of later users was admitted before a user who asked
// after them, and had to wait. A user is later if it joined after the other had its ticket. A user
// is admitted by its own polls alone, so users may be admitted between two of another one's. In a
// shuffled sale, the ranks of users who joined before the start must not correlate with their order
// of arrival.
func (c *checker) queueOrder(s *saleRow) {
	all := c.waiters(s.id)
	switch s.queue {
	case "fifo":
		c.inversions(s, all)
	case "shuffled":
		start := time.UnixMilli(s.starts)
		early := slices.DeleteFunc(slices.Clone(all), func(w waiter) bool { return !w.answered.Before(start) })
		late := slices.DeleteFunc(slices.Clone(all), func(w waiter) bool { return w.sent.Before(start) })
		c.shuffled(s, early)
		c.inversions(s, late)
	}
}

func (c *checker) inversions(s *saleRow, all []waiter) {
	// Sort by the end of the admission, and those who waited by the end of one at their last wait.
	var admitted, waited []waiter
	for _, w := range all {
		if !w.until.IsZero() {
			admitted = append(admitted, w)
		}
		if !w.lastWait.IsZero() {
			w.until = w.lastWait.Add(time.Duration(s.tokenFor) * time.Millisecond)
			waited = append(waited, w)
		}
	}
	byUntil := func(x, y waiter) int { return x.until.Compare(y.until) }
	slices.SortStableFunc(admitted, byUntil)
	slices.SortStableFunc(waited, byUntil)
	// Count for each user how many were admitted earlier and joined certainly later, after this
	// user had its ticket. A Fenwick tree over the times of joining counts them.
	asked := make([]time.Time, len(admitted))
	for i, w := range admitted {
		asked[i] = w.sent
	}
	slices.SortFunc(asked, time.Time.Compare)
	place := func(t time.Time) int { // how many joined at or before t
		i, _ := slices.BinarySearchFunc(asked, t, func(a, t time.Time) int {
			if a.After(t) {
				return 1
			}
			return -1
		})
		return i
	}
	sums := make([]int, len(asked)+1)
	upTo := func(i int) (n int) {
		for ; i > 0; i -= i & -i {
			n += sums[i]
		}
		return n
	}
	before := 0
	for _, w := range waited {
		for ; before < len(admitted) && admitted[before].until.Before(w.until); before++ {
			for i := place(admitted[before].sent); i < len(sums); i += i & -i {
				sums[i]++
			}
		}
		overtook := before - upTo(place(w.answered))
		c.records.check(FairQueue, overtook <= c.facts.Batch, "sale %s: %d users who joined after %s were admitted before it asked again, and waited: want at most one batch of %d", s.id, overtook, w.user, c.facts.Batch)
	}
}

// minSample is the minimum number of ranks for a correlation.
const minSample = 1000

func (c *checker) shuffled(s *saleRow, early []waiter) {
	early = slices.DeleteFunc(early, func(w waiter) bool { return w.rank == 0 })
	if len(early) < minSample {
		return
	}
	// Ranks instead of times, so that outliers have no extra weight.
	byRank := make([]int, len(early))
	for i := range byRank {
		byRank[i] = i
	}
	slices.SortFunc(byRank, func(x, y int) int { return cmp.Compare(early[x].rank, early[y].rank) })
	arrival, lot := make([]float64, len(early)), make([]float64, len(early))
	for place, i := range byRank {
		arrival[i], lot[i] = float64(i), float64(place)
	}
	// 0.05, or the value that chance alone exceeds once in a million.
	bound := max(0.05, 4.9/math.Sqrt(float64(len(early))))
	r := correlation(arrival, lot)
	c.records.check(FairQueue, math.Abs(r) <= bound, "sale %s: the ranks of %d users who joined before the start correlate with their arrival: r = %.3f, want at most %.3f",
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

// paidAt returns when the first response "paid" of each order arrived, in ms. The ledger records
// when a payment reached it; a slow ledger processes it later.
func (c *checker) paidAt() map[string]int64 {
	first := map[string]int64{}
	for _, o := range c.seen {
		if o.Action != calllog.Pay || !ok(o.Status) || o.State != "paid" {
			continue
		}
		id, at := c.reservation(o.Receipt), o.At.UnixMilli()
		if before, seen := first[id]; !seen || at < before {
			first[id] = at
		}
	}
	return first
}

// soldOut checks that no response says "waiting" after all units are paid, and that none says
// "sold out" before.
func (c *checker) soldOut(s *saleRow) {
	var last, known int64 // when the last unit was paid, and when the shop knew it
	var paid int64
	answered := c.paidAt()
	for _, o := range c.rows.orders[s.id] {
		if o.state == "paid" {
			paid += o.quantity
			last = max(last, o.changed)
			known = max(known, o.changed, answered[o.id])
		}
	}
	var stocked, refunded int64 // when units were last added, and when one was last refunded
	for _, o := range c.rows.orders[s.id] {
		if o.refunded() {
			refunded = max(refunded, o.changed+c.auditor.config.AnswerWithin.Milliseconds())
		}
	}
	for _, m := range c.rows.movements[s.id] {
		if m.kind == "stock" {
			stocked = max(stocked, m.at)
		}
	}
	gone := time.UnixMilli(max(known, stocked))
	for _, o := range c.seen {
		if o.Sale != s.id {
			continue
		}
		if o.Reason == "sold_out" && o.At.UnixMilli() >= max(stocked, refunded) {
			c.records.check(FairQueue, paid >= s.stock && !o.At.Before(time.UnixMilli(last)), "sale %s: %s received sold_out at %s, with %d of %d units paid",
				s.id, o.User, clock(o.At), paid, s.stock)
		}
		if paid < s.stock || !ok(o.Status) || o.State != "waiting" || o.Action != calllog.Poll && o.Action != calllog.Join {
			continue
		}
		// A user polls at most one interval later; the response must say "sold out" by then.
		c.records.check(FairQueue, o.Sent.Sub(gone) <= c.auditor.config.AnswerWithin, "sale %s: %s received waiting for a call at %s, all units were paid at %s",
			s.id, o.User, clock(o.Sent), clock(gone))
	}
}
