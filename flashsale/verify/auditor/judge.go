package auditor

import (
	"cmp"
	"slices"
	"time"
)

// A judge compares what buyers saw with what the ledger has.
type judge struct {
	a    *Auditor
	b    *book
	l    *ledger
	f    Facts
	seen []Observation // by the time they were sent
}

func newJudge(a *Auditor, l *ledger, f Facts) *judge {
	j := &judge{a: a, b: a.book, l: l, f: f, seen: slices.Clone(f.Observations)}
	slices.SortStableFunc(j.seen, func(x, y Observation) int { return x.Sent.Compare(y.Sent) })
	for i := range j.seen {
		if o := &j.seen[i]; o.Rank == 0 && o.Place != "" {
			o.Rank = RankOf(o.Place)
		}
	}
	return j
}

func (j *judge) observed() {
	if len(j.seen) == 0 {
		return
	}
	j.receipts()
	j.orders()
	j.states()
	j.payments()
	j.tickets()
	j.tokens()
	j.tokensOut()
	j.tricks()
	j.keys()
	j.workers()
	j.layers()
	for i := range j.l.sales {
		j.inOrder(&j.l.sales[i])
		j.soldOut(&j.l.sales[i])
	}
}

// kept checks that what an inventory acknowledged became an order, if it did not fail.
func (j *judge) kept() {
	if j.f.Failed {
		return
	}
	for i := range j.l.sales {
		for _, o := range j.l.orders[j.l.sales[i].id] {
			j.b.check(OneOrder, o.isOrder(), "sale %s: reservation %s of %s is %s, and no gate failed", o.sale, o.id, o.user, o.state)
		}
	}
}

// who is a user in a sale.
type who struct{ sale, user string }

func ok(status int) bool { return status >= 200 && status < 300 }

// unclear reports whether a call may have happened though no answer says so.
func unclear(status int) bool { return status == 0 || status >= 500 }

// reservation is what a receipt names. A text that is no receipt stands for itself.
func (j *judge) reservation(receipt string) string {
	return cmp.Or(j.f.Reservation(receipt), receipt)
}

// receipts checks that what was granted is recorded, and was granted in time.
func (j *judge) receipts() {
	for _, o := range j.seen {
		if o.Action != Buy || !ok(o.Status) {
			continue
		}
		if !j.b.check(OneOrder, o.Receipt != "", "sale %s: user %s was told %d at %s, without a receipt", o.Sale, o.User, o.Status, clock(o.At)) {
			continue
		}
		id := j.reservation(o.Receipt)
		s := j.l.sale(o.Sale)
		if s != nil && !o.Granted.IsZero() {
			ms := o.Granted.UnixMilli()
			j.b.check(InTime, ms >= s.starts && ms < s.ends, "sale %s: user %s, whose clock is %d ms ahead, was granted %s at %s, and the sale is from %s to %s",
				o.Sale, o.User, o.Skew, id, at(ms), at(s.starts), at(s.ends))
		}
		row, known := j.l.byID[id]
		switch {
		case known:
			j.b.check(OneOrder, row.user == o.User && row.sale == o.Sale, "reservation %s was granted to %s in sale %s, and is recorded for %s in %s",
				id, o.User, o.Sale, row.user, row.sale)
		case j.f.Settled && s != nil:
			j.b.check(OneOrder, j.l.buried[id], "sale %s: reservation %s was granted to %s at %s, and is recorded nowhere", o.Sale, id, o.User, clock(o.At))
		}
	}
}

// orders checks that somebody asked for every order.
func (j *judge) orders() {
	if !j.f.Complete {
		return
	}
	asked := map[who]int{}
	granted := map[string]bool{}
	for _, o := range j.seen {
		if o.Action == Buy && unclear(o.Status) {
			asked[who{o.Sale, o.User}]++
		}
		if o.Action == Buy && ok(o.Status) {
			granted[j.reservation(o.Receipt)] = true
		}
	}
	for i := range j.l.sales {
		id := j.l.sales[i].id
		for _, o := range j.l.orders[id] {
			if granted[o.id] {
				j.b.held(OneOrder, 1)
				continue
			}
			w := who{o.sale, o.user}
			j.b.check(OneOrder, asked[w] > 0, "sale %s: order %s of %s, which nobody was granted or left without an answer", o.sale, o.id, o.user)
			asked[w]--
		}
	}
}

// next are the states that may follow a state of a receipt; nothing follows the others.
func follows(before, after string) bool {
	switch before {
	case after, "":
		return true
	case "reserved":
		return true
	case "pending_pay":
		return after == "paid" || after == "expired" || after == "cancelled"
	}
	return false
}

// states checks that what a buyer was told of an order never ran back, and that the last of
// it is so. What Buy answers is left out: it repeats its first answer.
func (j *judge) states() {
	type told struct {
		state string
		at    time.Time
	}
	last := map[string]told{}
	for _, o := range j.seen {
		if o.Receipt == "" || o.State == "" || !ok(o.Status) || o.Action != Look && o.Action != Pay && o.Action != Cancel {
			continue
		}
		id := j.reservation(o.Receipt)
		before := last[id]
		if o.Sent.Before(before.at) { // asked before the other was answered: either may be older
			continue
		}
		j.b.check(OneOrder, follows(before.state, o.State), "sale %s: user %s was told that %s is %s, and then that it is %s", o.Sale, o.User, id, before.state, o.State)
		last[id] = told{o.State, o.At}
	}
	for id, t := range last {
		if row, known := j.l.byID[id]; known {
			j.b.check(OneOrder, follows(t.state, row.state), "sale %s: user %s was told that %s is %s, and it is %s", row.sale, row.user, id, t.state, row.state)
		}
	}
}

// payments checks that no money is forgotten, and that nobody was told something else.
func (j *judge) payments() {
	byID := map[string]paymentRow{}
	for _, ps := range j.l.payments {
		for _, p := range ps {
			byID[p.id] = p
		}
	}
	for _, o := range j.seen {
		if o.Action != Pay || !ok(o.Status) && o.Reason != "refund_due" || o.Status == 202 {
			continue
		}
		id := j.reservation(o.Receipt)
		if o.Payment != "" {
			want := "accepted"
			if o.Reason == "refund_due" {
				want = "refund_due"
			}
			p, known := byID[o.Payment]
			j.b.check(PayOrTimeout, known && p.state == want && p.reservation == id, "payment %s of %s was answered with %d %s, and is recorded as %q of %q",
				o.Payment, id, o.Status, o.Reason, p.state, p.reservation)
		}
		if row, known := j.l.byID[id]; known && ok(o.Status) && o.State == "paid" {
			j.b.check(PayOrTimeout, row.state == "paid", "sale %s: %s was told that %s is paid, and it is %s", row.sale, o.User, id, row.state)
		}
	}
}

// keys checks that one key of a user has one answer and one effect.
func (j *judge) keys() {
	type key struct{ sale, user, key string }
	first := map[key]Observation{}
	for _, o := range j.seen {
		if o.Action != Buy || o.Key == "" || !ok(o.Status) {
			continue
		}
		k := key{o.Sale, o.User, o.Key}
		f, again := first[k]
		if !again {
			first[k] = o
			j.b.held(Idempotency, 1)
			continue
		}
		j.b.check(Idempotency, f.Receipt == o.Receipt && f.Status == o.Status && (f.Body == o.Body || f.Body == "" || o.Body == ""),
			"sale %s: user %s with key %q was answered %d %s %s, and then %d %s %s", o.Sale, o.User, o.Key,
			f.Status, j.reservation(f.Receipt), f.Body, o.Status, j.reservation(o.Receipt), o.Body)
	}
}

// workers checks what boards showed.
func (j *judge) workers() {
	for _, o := range j.seen {
		if o.Action == Board && o.Workers > 0 && j.f.Workers > 0 {
			j.b.check(Bounded, o.Workers <= j.f.Workers, "sale %s: %d order writers at %s, %d were configured", o.Sale, o.Workers, clock(o.At), j.f.Workers)
		}
	}
}

// layers checks that each refusal names who refused, and that the servers counted as many.
func (j *judge) layers() {
	told := map[string]int64{}
	var lost int64
	for _, o := range j.seen {
		n := max(1, o.Issued)
		if o.Action == Leave {
			continue
		}
		switch o.Status {
		case 425, 429, 410:
			j.b.check(LayersAddUp, o.Layer != "", "sale %s: a refusal %d %s at %s names no layer", o.Sale, o.Status, o.Reason, clock(o.At))
		}
		switch {
		case unclear(o.Status) && o.Layer == "":
			lost += n
		case o.Layer != "":
			told[o.Layer] += n
			j.b.check(LayersAddUp, !ok(o.Status) || o.Action == Join || o.Action == Turn, "sale %s: %s was answered %d, and refused by %s", o.Sale, o.Action, o.Status, o.Layer)
		}
	}
	if j.f.Layers == nil || !j.f.Complete {
		return
	}
	for layer := range j.f.Layers {
		told[layer] += 0
	}
	for _, layer := range slices.Sorted(keysOf(told)) {
		n := j.f.Layers[layer]
		// A refusal whose answer never came was counted by the server alone.
		j.b.check(LayersAddUp, n >= told[layer] && n <= told[layer]+lost, "layer %s says that it refused %d, and buyers saw %d (%d calls were not answered)",
			layer, n, told[layer], lost)
	}
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }
