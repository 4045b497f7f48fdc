package inventorytest

import (
	"reflect"
	"strings"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// unchanged runs a refused call and checks that it changes nothing.
func (d *tester) unchanged(what string, run func(), users ...string) {
	d.Helper()
	look := func() (all []any) {
		all = append(all, d.count())
		for _, user := range users {
			all = append(all, StatusInUTC(d.status(user)))
		}
		return all
	}
	before := look()
	run()
	if after := look(); !reflect.DeepEqual(before, after) {
		d.Fatalf("%s changed\n%v to\n%v", what, before, after)
	}
}

func refusalsChangeNothing(d *tester) {
	users := []string{"ann", "bob", "cat", "dan", "eve"}
	d.open(stock(1))
	d.buy("ann")                        // spent
	cat := d.admitted("cat")            // admitted
	bob := d.join(d.joinRequest("bob")) // waiting, as no unit is free
	same := func(what string, run func()) { d.Helper(); d.unchanged(what, run, users...) }
	same("Status", func() { d.status("unknown"); d.count() })
	same("Reserve without a free unit", func() { d.wantRefused(d.reserve("cat", cat.Ticket, "key"), sale.IsAllTaken) })
	same("Reserve of a waiting user", func() { d.wantRefused(d.reserve("bob", bob.Ticket, "key"), sale.NotAdmitted) })
	same("Reserve without a ticket", func() { d.wantRefused(d.reserve("dan", d.id("ticket"), "key"), sale.NotAdmitted) })
	same("Join above the limit", func() { d.join(d.joinRequest("ann")) })
	same("Join again", func() { d.join(d.joinRequest("bob")); d.join(d.joinRequest("cat")) })
	same("Poll of a spent ticket", func() { d.pollToBuy("ann"); d.poll("cat"); d.poll("unknown") })
	same("Join of a full queue", func() {
		j := d.joinRequest("dan")
		j.Max = 1
		d.wantStatus(d.join(j), sale.NoTicket, sale.QueueFull)
	})
	same("Return of an unknown reservation", func() { d.returnUnit(sale.Reservation{ID: d.id("reservation"), User: "ann"}) })
	same("Ack of nothing", func() { d.ack() })
	same("SetStock to fewer", func() { d.wantError("SetStock", d.inventory.SetStock(d.ctx, "sale", 1, 0), sale.ErrInvalid) })
	// The key of a refused call is free.
	if err := d.inventory.SetStock(d.ctx, "sale", 1, 2); err != nil {
		d.Fatal(err)
	}
	if o := d.reserve("cat", cat.Ticket, "key"); o.Reason != sale.OK || o.Repeated {
		d.Fatalf("Reserve with the key of a refusal = %+v", o)
	}
	d.advance(2 * time.Hour)
	d.count() // bob became absent
	same("Join after the end", func() { d.wantStatus(d.join(d.joinRequest("dan")), sale.NoTicket, sale.HasEnded) })
	same("Reserve after the end", func() { d.wantRefused(d.reserve("bob", bob.Ticket, ""), sale.HasEnded) })
	same("Poll after the end", func() { d.pollToBuy("bob") })
}

func badArguments(d *tester) {
	d.open()
	long := strings.Repeat("x", 129)
	id := "0123456789-abcDEF"
	until := d.clock.Now().Add(time.Minute)
	for name, change := range map[string]func(j *sale.JoinRequest){
		"no user": func(j *sale.JoinRequest) { j.User = "" }, "a long user": func(j *sale.JoinRequest) { j.User = long },
		"no ticket": func(j *sale.JoinRequest) { j.Ticket = "" }, "a short ticket": func(j *sale.JoinRequest) { j.Ticket = id[:15] },
		"a long ticket": func(j *sale.JoinRequest) { j.Ticket = strings.Repeat("x", 65) }, "a ticket with a space": func(j *sale.JoinRequest) { j.Ticket = id + " " },
		"a ticket with a zero byte": func(j *sale.JoinRequest) { j.Ticket = id + "\x00" }, "a ticket with an umlaut": func(j *sale.JoinRequest) { j.Ticket = id + "ä" },
		"a rank below 0": func(j *sale.JoinRequest) { j.Rank = -1 }, "a huge rank": func(j *sale.JoinRequest) { j.Rank = 1<<53 + 1 },
		"a lot below 0": func(j *sale.JoinRequest) { j.Lot = -1 }, "a huge lot": func(j *sale.JoinRequest) { j.Lot = sale.MaxLot + 1 },
		"a bound below 0": func(j *sale.JoinRequest) { j.Max = -1 }, "a batch without a time": func(j *sale.JoinRequest) { j.Batch = "b" },
		"a bad reservation": func(j *sale.JoinRequest) { j.Reservation = "x" }, "a bound on the stream below 0": func(j *sale.JoinRequest) { j.MaxBacklog = -1 },
		"a long batch": func(j *sale.JoinRequest) { j.Batch, j.Until = long, until },
	} {
		j := sale.JoinRequest{Sale: "sale", Epoch: 1, User: "ann", Ticket: id}
		change(&j)
		_, err := d.inventory.Join(d.ctx, j)
		d.wantError("Join with "+name, err, sale.ErrInvalid)
	}
	for name, change := range map[string]func(a *sale.ReserveRequest){
		"no user": func(a *sale.ReserveRequest) { a.User = "" }, "a bad ticket": func(a *sale.ReserveRequest) { a.Ticket = "x" },
		"a long key": func(a *sale.ReserveRequest) { a.Key = long }, "a key that is not UTF-8": func(a *sale.ReserveRequest) { a.Key = "\xff" },
		"a user that is not UTF-8": func(a *sale.ReserveRequest) { a.User = "ann\xff" }, "no reservation": func(a *sale.ReserveRequest) { a.Reservation = "" },
		"a bad reservation": func(a *sale.ReserveRequest) { a.Reservation = id + ":" },
	} {
		a := sale.ReserveRequest{Sale: "sale", Epoch: 1, User: "ann", Ticket: id, Reservation: id}
		change(&a)
		_, err := d.inventory.Reserve(d.ctx, a)
		d.wantError("Reserve with "+name, err, sale.ErrInvalid)
	}
	for _, n := range []int{-1, 0, 1001} {
		_, err := d.inventory.Next(d.ctx, "sale", 1, "w", n, 0)
		d.wantError("Next with an invalid number", err, sale.ErrInvalid)
	}
	for _, worker := range []string{"", "a b", "a\n", "ä", strings.Repeat("w", 65)} {
		_, err := d.inventory.Next(d.ctx, "sale", 1, worker, 1, 0)
		d.wantError("Next with an invalid worker", err, sale.ErrInvalid)
		_, err = d.inventory.Attend(d.ctx, worker)
		d.wantError("Attend with an invalid worker", err, sale.ErrInvalid)
	}
	r := sale.Reservation{ID: id, Sale: "sale", Epoch: 1, User: "ann", Slot: 1, Ticket: id, At: Start(), PayBy: Start()}
	second := r
	second.ID, second.Ticket = id+"2", id+"2"
	for name, change := range map[string]func(o *sale.InitialState){
		"no epoch": func(o *sale.InitialState) { o.Sale.Epoch = 0 }, "no ID": func(o *sale.InitialState) { o.Sale.ID = "" },
		"stock below 0": func(o *sale.InitialState) { o.Sale.Stock = -1 }, "nothing per user": func(o *sale.InitialState) { o.Sale.PerUser = 0 },
		"no time to pay": func(o *sale.InitialState) { o.Sale.PayWithin = 0 }, "an end before the start": func(o *sale.InitialState) { o.Sale.EndsAt = o.Sale.StartsAt },
		"more holds than units":              func(o *sale.InitialState) { o.Sale.Stock = 0; o.Reserved = []sale.Reservation{r} },
		"a reservation twice":                func(o *sale.InitialState) { o.Reserved, o.Pending = []sale.Reservation{r}, []sale.Reservation{r} },
		"a slot twice":                       func(o *sale.InitialState) { o.Reserved = []sale.Reservation{r, second} },
		"a slot above the limit":             func(o *sale.InitialState) { s := r; s.Slot = 2; o.Reserved = []sale.Reservation{s} },
		"a user with no unpaid reservations": func(o *sale.InitialState) { o.Unpaid = map[string]int{"ann": 0} },
		"another sale's hold":                func(o *sale.InitialState) { s := r; s.Sale = "other"; o.Reserved = []sale.Reservation{s} },
	} {
		o := sale.InitialState{Sale: d.draft(epoch(2))}
		change(&o)
		d.wantError("Open with "+name, d.inventory.Open(d.ctx, o), sale.ErrInvalid)
	}
	d.wantCounts(sale.Counts{Stock: 5, Free: 5})
	// Unusual values that are allowed.
	for _, user := range []string{"{sale}", "a:b", "ä\x00\n", strings.Repeat("u", 128), "*", "0"} {
		j := sale.JoinRequest{Sale: "sale", Epoch: 1, User: user, Ticket: d.id("ticket")}
		st := d.join(j)
		d.poll(user)
		if o := d.reserve(user, st.Ticket, " \" "); o.Reason != sale.OK && d.count().Free > 0 || o.Reason == sale.OK && (o.Reservation.User != user || o.Reservation.Key != " \" ") {
			d.Fatalf("Reserve of user %q = %+v", user, o)
		}
	}
	for _, e := range d.next("w", 99) {
		if e.Corrupt != "" {
			d.Fatalf("Next = %+v", e)
		}
	}
}

func reasonsInOrder(d *tester) {
	// With several reasons for a refusal, the first in this order is returned.
	d.open(stock(1), lobby(time.Minute), d.starts(4*time.Second), paused, func(s *sale.Sale) { s.EndsAt = s.StartsAt.Add(time.Hour); s.TokenFor = 4 * time.Second })
	ann := d.join(d.joinRequest("ann"))
	bob := d.join(d.joinRequest("bob"))
	ask := func(want sale.Reason) { d.Helper(); d.wantRefused(d.reserve("ann", ann.Ticket, ""), want) }
	set := func(on bool) {
		d.Helper()
		if err := d.inventory.SetPaused(d.ctx, "sale", 1, on); err != nil {
			d.Fatal(err)
		}
	}
	batch := func(user string, want sale.Reason) {
		d.Helper()
		j := d.joinRequest(user)
		j.Batch, j.Until, j.Max = "batch", d.clock.Now().Add(time.Minute), 1
		if st := d.join(j); st.Reason != want {
			d.Fatalf("Join = %+v, want reason %q", st, want)
		}
	}
	ask(sale.IsPaused)
	batch("cat", sale.IsPaused)
	set(false)
	ask(sale.NotStarted)
	batch("cat", sale.NotStarted)
	d.advance(4 * time.Second)
	ask(sale.NotAdmitted)
	d.poll("ann")
	d.poll("bob")
	if o := d.reserve("bob", bob.Ticket, ""); o.Reason != sale.OK {
		d.Fatalf("Reserve = %+v", o)
	}
	ask(sale.IsAllTaken)
	d.advance(4 * time.Second)
	ask(sale.AdmissionExpired)
	set(true)
	ask(sale.IsPaused)
	batch("bob", sale.IsPaused)
	full := func(user string) sale.TicketStatus {
		j := d.joinRequest(user)
		j.Max = 1
		return d.join(j)
	}
	d.wantStatus(full("cat"), sale.Waiting, sale.OK)
	d.wantStatus(full("dan"), sale.NoTicket, sale.QueueFull)
	d.wantStatus(full("bob"), sale.Spent, sale.PerUserLimit)
	d.advance(2 * time.Hour)
	ask(sale.HasEnded)
	batch("bob", sale.HasEnded)
	d.wantStatus(full("dan"), sale.NoTicket, sale.HasEnded)
}

func count(d *tester) {
	d.open(stock(3), headroom(1), paused)
	want := sale.Counts{Stock: 3, Free: 3, Paused: true}
	d.wantCounts(want)
	var tickets []sale.TicketStatus
	for _, user := range []string{"ann", "bob", "cat", "dan"} {
		tickets = append(tickets, d.join(d.joinRequest(user)))
		want.Waiting++
		d.wantCounts(want)
	}
	d.pause(false)
	d.poll("ann")
	d.poll("bob")
	keep(d, 10*time.Second, "ann", "bob", "dan")
	want = sale.Counts{Stock: 3, Free: 3, Waiting: 0, Outstanding: 3} // cat left, and dan came before
	d.wantCounts(want)
	d.poll("cat")
	want.Waiting = 1
	d.wantCounts(want)
	d.reserve("ann", tickets[0].Ticket, "")
	want.Free, want.Reserved, want.Backlog, want.Outstanding = 2, 1, 1, 2
	d.wantCounts(want)
	keep(d, 20*time.Second-time.Millisecond, "bob", "cat", "dan")
	d.wantCounts(want)
	d.advance(time.Millisecond)
	want.Outstanding = 1 // bob's token has expired
	d.wantCounts(want)
	d.reserve("dan", tickets[3].Ticket, "")
	want.Free, want.Reserved, want.Backlog, want.Outstanding = 1, 2, 2, 0
	d.wantCounts(want)
	d.advance(time.Minute)
	want.Waiting = 0
	d.wantCounts(want)
	if c := d.count(); c.Turns != 3 || c.Left != 1 {
		d.Fatalf("Counts = %+v, want 3 turns and 1 left", c)
	}
}
