package auditor

import (
	"github.com/floodweir/weir/flashsale/verify/calllog"

	"cmp"
	"maps"
	"slices"
	"time"
)

// A checker compares the observations of buyers with the ledger.
type checker struct {
	auditor *Auditor
	records *records
	rows    *ledgerRows
	facts   Facts
	seen    []calllog.Call // by Sent
}

func newChecker(a *Auditor, l *ledgerRows, f Facts) *checker {
	c := &checker{auditor: a, records: a.records, rows: l, facts: f, seen: slices.Clone(f.Observations)}
	slices.SortStableFunc(c.seen, func(x, y calllog.Call) int { return x.Sent.Compare(y.Sent) })
	for i := range c.seen {
		if o := &c.seen[i]; o.Rank == 0 && o.Ticket != "" {
			o.Rank = calllog.RankOf(o.Ticket)
		}
	}
	return c
}

func (c *checker) observations() {
	if len(c.seen) == 0 {
		return
	}
	c.receipts()
	c.requestedOrders()
	c.orderStates()
	c.payments()
	c.ticketEnds()
	c.usedTokens()
	c.outstandingTokens()
	c.misuses()
	c.idempotencyKeys()
	c.workers()
	c.layers()
	for i := range c.rows.sales {
		c.queueOrder(&c.rows.sales[i])
		c.soldOut(&c.rows.sales[i])
	}
}

// acknowledged checks that every reservation became an order, unless an inventory failed.
func (c *checker) acknowledged() {
	if c.facts.Failed {
		return
	}
	for i := range c.rows.sales {
		for _, o := range c.rows.orders[c.rows.sales[i].id] {
			c.records.check(OneOrder, o.isOrder(), "sale %s: reservation %s of %s is %s, although no inventory failed", o.sale, o.id, o.user, o.state)
		}
	}
}

// saleUser identifies a user in a sale.
type saleUser struct{ sale, user string }

func ok(status int) bool { return status >= 200 && status < 300 }

// uncertain reports whether a call may have had an effect although its response is missing.
func uncertain(status int) bool { return status == 0 || status >= 500 }

// reservation returns the reservation of a receipt. A text that is not a receipt is returned
// unchanged.
func (c *checker) reservation(receipt string) string {
	return cmp.Or(c.facts.Reservation(receipt), receipt)
}

// receipts checks that every granted reservation is recorded, and was granted in time.
func (c *checker) receipts() {
	for _, o := range c.seen {
		if o.Action != calllog.Buy || !ok(o.Status) {
			continue
		}
		if !c.records.check(OneOrder, o.Receipt != "", "sale %s: user %s received status %d at %s without a receipt", o.Sale, o.User, o.Status, clock(o.At)) {
			continue
		}
		id := c.reservation(o.Receipt)
		s := c.rows.sale(o.Sale)
		if s != nil && !o.Granted.IsZero() {
			ms := o.Granted.UnixMilli()
			c.records.check(InTime, ms >= s.starts && ms < s.ends, "sale %s: user %s, with a clock %d ms ahead, was granted %s at %s, want between %s and %s",
				o.Sale, o.User, o.Skew, id, at(ms), at(s.starts), at(s.ends))
		}
		row, known := c.rows.byID[id]
		switch {
		case known:
			c.records.check(OneOrder, row.user == o.User && row.sale == o.Sale, "reservation %s was granted to %s in sale %s, it is recorded for %s in %s",
				id, o.User, o.Sale, row.user, row.sale)
		case c.facts.Settled && s != nil:
			c.records.check(OneOrder, c.rows.deadLetters[id], "sale %s: reservation %s was granted to %s at %s, it is not recorded", o.Sale, id, o.User, clock(o.At))
		}
	}
}

// requestedOrders checks that every order was requested by a call.
func (c *checker) requestedOrders() {
	if !c.facts.Complete {
		return
	}
	asked := map[saleUser]int{}
	granted := map[string]bool{}
	for _, o := range c.seen {
		if o.Action == calllog.Buy && uncertain(o.Status) {
			asked[saleUser{o.Sale, o.User}]++
		}
		if o.Action == calllog.Buy && ok(o.Status) {
			granted[c.reservation(o.Receipt)] = true
		}
	}
	for i := range c.rows.sales {
		id := c.rows.sales[i].id
		for _, o := range c.rows.orders[id] {
			if granted[o.id] {
				c.records.passed(OneOrder, 1)
				continue
			}
			w := saleUser{o.sale, o.user}
			c.records.check(OneOrder, asked[w] > 0, "sale %s: order %s of %s has no granted and no unanswered call", o.sale, o.id, o.user)
			asked[w]--
		}
	}
}

// follows reports whether a receipt in state before can change to after.
func (c *checker) follows(id, before, after string) bool {
	switch before {
	case after, "":
		return true
	case "reserved":
		return true
	case "pending_pay":
		return after == "paid" || after == "expired" || after == "cancelled"
	case "paid":
		row, known := c.rows.byID[id]
		return after == "cancelled" && known && row.refunded()
	}
	return false
}

// orderStates checks that the states that buyers received never go backwards, and that the last
// one agrees with the ledger. Responses of Buy are excluded: a repeated Buy returns its first
// response.
func (c *checker) orderStates() {
	type seenState struct {
		state string
		at    time.Time
	}
	last := map[string]seenState{}
	for _, o := range c.seen {
		if o.Receipt == "" || o.State == "" || !ok(o.Status) || o.Action != calllog.Look && o.Action != calllog.Pay && o.Action != calllog.Cancel {
			continue
		}
		id := c.reservation(o.Receipt)
		before := last[id]
		if o.Sent.Before(before.at) { // sent before the previous response arrived: either may be older
			continue
		}
		c.records.check(OneOrder, c.follows(id, before.state, o.State), "sale %s: user %s received state %[4]s for %[3]s, and later %[5]s", o.Sale, o.User, id, before.state, o.State)
		last[id] = seenState{o.State, o.At}
	}
	for id, t := range last {
		if row, known := c.rows.byID[id]; known {
			c.records.check(OneOrder, c.follows(id, t.state, row.state), "sale %s: user %s received state %[4]s for %[3]s, the ledger has %[5]s", row.sale, row.user, id, t.state, row.state)
		}
	}
}

// payments checks that every payment is recorded with the state that its response had.
func (c *checker) payments() {
	byID := map[string]paymentRow{}
	for _, ps := range c.rows.payments {
		for _, p := range ps {
			byID[p.id] = p
		}
	}
	for _, o := range c.seen {
		if o.Action != calllog.Pay || !ok(o.Status) && o.Reason != "refund_due" || o.Status == 202 {
			continue
		}
		id := c.reservation(o.Receipt)
		if o.Payment != "" {
			want := "accepted"
			if o.Reason == "refund_due" {
				want = "refund_due"
			}
			p, known := byID[o.Payment]
			row := c.rows.byID[id]
			refunded := want == "accepted" && row != nil && row.refunded()
			c.records.check(PayOrTimeout, known && (p.state == want || refunded) && p.reservation == id, "payment %s of %s returned %d %s, it is recorded as %q of %q",
				o.Payment, id, o.Status, o.Reason, p.state, p.reservation)
		}
		if row, known := c.rows.byID[id]; known && ok(o.Status) && o.State == "paid" {
			c.records.check(PayOrTimeout, row.state == "paid" || row.refunded(), "sale %s: %s received state paid for %s, the ledger has %s", row.sale, o.User, id, row.state)
		}
	}
}

// idempotencyKeys checks that one key of a user has one response and one effect.
func (c *checker) idempotencyKeys() {
	type key struct{ sale, user, key string }
	first := map[key]calllog.Call{}
	for _, o := range c.seen {
		if o.Action != calllog.Buy || o.Key == "" || !ok(o.Status) {
			continue
		}
		k := key{o.Sale, o.User, o.Key}
		f, again := first[k]
		if !again {
			first[k] = o
			c.records.passed(Idempotency, 1)
			continue
		}
		c.records.check(Idempotency, f.Receipt == o.Receipt && f.Status == o.Status && (f.Body == o.Body || f.Body == "" || o.Body == ""),
			"sale %s: user %s with key %q received %d %s %s, and later %d %s %s", o.Sale, o.User, o.Key,
			f.Status, c.reservation(f.Receipt), f.Body, o.Status, c.reservation(o.Receipt), o.Body)
	}
}

// workers checks the number of order writers that dashboards show.
func (c *checker) workers() {
	for _, o := range c.seen {
		if o.Action == calllog.Board && o.Workers > 0 && c.facts.Workers > 0 {
			c.records.check(Bounded, o.Workers <= c.facts.Workers, "sale %s: %d order writers at %s, want at most %d", o.Sale, o.Workers, clock(o.At), c.facts.Workers)
		}
	}
}

// layers checks that each refusal names its layer, and that the servers counted the same number.
func (c *checker) layers() {
	refusals := map[string]int64{}
	var lost int64
	for _, o := range c.seen {
		n := max(1, o.Issued)
		if o.Action == calllog.Leave {
			continue
		}
		switch o.Status {
		case 425, 429, 410:
			c.records.check(LayersAddUp, o.Layer != "", "sale %s: refusal %d %s at %s names no layer", o.Sale, o.Status, o.Reason, clock(o.At))
		}
		switch {
		case uncertain(o.Status) && o.Layer == "":
			lost += n
		case o.Layer != "":
			refusals[o.Layer] += n
			c.records.check(LayersAddUp, !ok(o.Status) || o.Action == calllog.Join || o.Action == calllog.Poll, "sale %s: %s returned %d, although %s refused it", o.Sale, o.Action, o.Status, o.Layer)
		}
	}
	if c.facts.Layers == nil || !c.facts.Complete {
		return
	}
	for layer := range c.facts.Layers {
		refusals[layer] += 0
	}
	for _, layer := range slices.Sorted(maps.Keys(refusals)) {
		n := c.facts.Layers[layer]
		// The servers alone count a refusal whose response was lost.
		c.records.check(LayersAddUp, n >= refusals[layer] && n <= refusals[layer]+lost, "layer %s counted %d refusals, buyers received %d (%d calls have no response)",
			layer, n, refusals[layer], lost)
	}
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }
