package inventorytest

import (
	"fmt"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// wantQueue checks which users wait, in which order.
func (d *tester) wantQueue(users ...string) {
	d.Helper()
	last := int64(0)
	for i, user := range users {
		st := d.status(user)
		d.wantStatus(st, sale.Waiting, sale.OK)
		if st.Ahead != int64(i) || st.Rank <= last {
			d.Fatalf("%s has %d ahead at rank %d, want %d ahead, above rank %d", user, st.Ahead, st.Rank, i, last)
		}
		last = st.Rank
	}
	if n := d.count().Waiting; n != int64(len(users)) {
		d.Fatalf("%d users wait, want %d", n, len(users))
	}
}

func fifo(d *tester) {
	d.open(stock(2), headroom(1), paused)
	for _, user := range []string{"ann", "bob", "cat", "dan"} {
		d.wantStatus(d.join(d.joinRequest(user)), sale.Waiting, sale.OK)
	}
	if rank := d.status("ann").Rank; rank <= sale.MaxLot {
		d.Fatalf("rank = %d, want above MaxLot", rank)
	}
	d.wantQueue("ann", "bob", "cat", "dan")
	d.pause(false)
	for _, user := range []string{"dan", "cat", "bob", "ann"} {
		d.poll(user)
	}
	d.wantQueue("cat", "dan")
	d.join(d.joinRequest("eve"))
	d.wantQueue("cat", "dan", "eve")
	setStock(d, 5)
	for _, user := range []string{"cat", "dan", "eve"} {
		d.wantStatus(d.poll(user), sale.Admitted, sale.OK)
	}
	d.wantQueue()
	// A later user has a higher rank, whether the clock stands still or moves.
	d.join(d.joinRequest("fay"))
	d.join(d.joinRequest("guy"))
	d.advance(time.Second)
	d.join(d.joinRequest("hal"))
	d.wantQueue("fay", "guy", "hal")
}

func lots(d *tester) {
	d.open(stock(0), lobby(time.Minute), d.starts(2*time.Minute))
	lot := func(user string, lot int64) sale.TicketStatus {
		j := d.joinRequest(user)
		j.Lot = lot
		return d.join(j)
	}
	d.wantStatus(lot("ann", 7), sale.NoTicket, sale.NotStarted)
	d.advance(time.Minute - time.Millisecond)
	d.wantStatus(lot("ann", 7), sale.NoTicket, sale.NotStarted)
	d.advance(time.Millisecond)
	d.wantStatus(lot("ann", 7), sale.Waiting, sale.OK)
	lot("bob", 3)
	lot("cat", sale.MaxLot)
	lot("dan", 5)
	d.wantQueue("bob", "dan", "ann", "cat")
	// If a lot is used, the next unused one is taken.
	lot("eve", 5)
	lot("fay", 5)
	lot("guy", 6)
	d.wantQueue("bob", "dan", "eve", "ann", "fay", "guy", "cat")
	if r := d.status("guy").Rank; r != 9 {
		d.Fatalf("lot 6 with 6, 7 and 8 used has rank %d, want 9", r)
	}
	keep(d, time.Minute, "bob", "dan", "eve", "ann", "fay", "guy", "cat")
	lot("hal", 1)
	d.join(d.joinRequest("ivy"))
	d.wantQueue("bob", "dan", "eve", "ann", "fay", "guy", "cat", "hal", "ivy")
	if r := d.status("hal").Rank; r <= sale.MaxLot {
		d.Fatalf("rank after the start = %d, want above MaxLot", r)
	}
}

func restoredRanks(d *tester) {
	d.open(stock(0))
	ranks := make(map[string]int64)
	for _, user := range []string{"ann", "bob", "cat"} {
		ranks[user] = d.join(d.joinRequest(user)).Rank
	}
	d.closeAndDrain()
	d.advance(time.Second)
	d.open(epoch(2), stock(0))
	restore := func(user string) sale.TicketStatus {
		j := d.joinRequest(user)
		j.Rank = ranks[user]
		return d.join(j)
	}
	d.join(d.joinRequest("new"))
	restore("cat")
	d.wantQueue("cat", "new")
	if st := restore("ann"); st.Rank != ranks["ann"] || st.Ahead != 0 {
		d.Fatalf("restored = %+v, want rank %d and 0 ahead", st, ranks["ann"])
	}
	restore("bob")
	d.wantQueue("ann", "bob", "cat", "new")
	restore("bob")
	d.wantQueue("ann", "bob", "cat", "new")
	// Two users cannot have one rank.
	j := d.joinRequest("dup")
	j.Rank = ranks["cat"]
	d.join(j)
	d.wantQueue("ann", "bob", "cat", "dup", "new")
	// A later user is behind a rank from a clock that was ahead.
	j = d.joinRequest("far")
	j.Rank = d.status("new").Rank + int64(time.Hour/time.Microsecond)
	d.join(j)
	d.join(d.joinRequest("late"))
	d.wantQueue("ann", "bob", "cat", "dup", "new", "far", "late")
}

func rankOnce(d *tester) {
	d.open(epoch(2), func(s *sale.Sale) { s.TokenFor = 4 * time.Second })
	j := d.joinRequest("ann")
	j.Rank = d.clock.Now().Add(-time.Hour).UnixMicro()
	if st := d.join(j); st.Rank != j.Rank {
		d.Fatalf("Join = %+v, want rank %d", st, j.Rank)
	}
	d.advance(4 * time.Second)
	d.wantStatus(d.status("ann"), sale.TicketExpired, sale.OK)
	bob := d.join(d.joinRequest("bob"))
	j.Ticket = d.id("ticket")
	if ann := d.join(j); ann.Rank <= bob.Rank {
		d.Fatalf("the rank counts again: %d, want above %d", ann.Rank, bob.Rank)
	}
}

func longQueue(d *tester) {
	const n = 1500
	d.open(stock(0), lobby(time.Minute), d.starts(time.Minute))
	user := func(rank int) string { return fmt.Sprintf("user-%04d", rank) }
	for i := range n {
		rank := i * 7 % n // each rank once, not in order
		j := d.joinRequest(user(rank))
		j.Lot = int64(rank) + 1
		d.join(j)
	}
	ahead := func(rank, want int) {
		d.Helper()
		if got := d.status(user(rank)).Ahead; got != int64(want) {
			d.Fatalf("%s has %d ahead, want %d", user(rank), got, want)
		}
	}
	for rank := 0; rank < n; rank += 13 {
		ahead(rank, rank)
	}
	for rank := range n {
		d.poll(user(rank)) // so that the deadlines follow the final positions
	}
	d.advance(4 * time.Second)
	for rank := 700; rank < n; rank++ {
		d.poll(user(rank))
	}
	d.advance(13 * time.Second)
	d.count() // removes the 700 who left
	for rank := 700; rank < n; rank += 13 {
		ahead(rank, rank-700)
	}
	ahead(699, 0)
	if c := d.count(); c.Waiting != 800 || c.Left != 700 {
		d.Fatalf("Counts = %+v, want 800 waiting and 700 left", c)
	}
}

func admissionExpires(d *tester) {
	d.open()
	st := d.join(d.joinRequest("ann"))
	keep(d, 30*time.Second-time.Millisecond, "ann")
	d.wantStatus(d.status("ann"), sale.Admitted, sale.OK)
	d.wantCounts(sale.Counts{Stock: 5, Free: 5, Outstanding: 1})
	d.advance(time.Millisecond)
	d.wantStatus(d.status("ann"), sale.TicketExpired, sale.OK)
	d.wantCounts(sale.Counts{Stock: 5, Free: 5})
	d.wantRefused(d.reserve("ann", st.Ticket, ""), sale.AdmissionExpired)
	// Joining with the same ticket again changes nothing.
	j := d.joinRequest("ann")
	j.Ticket = st.Ticket
	d.wantStatus(d.join(j), sale.TicketExpired, sale.OK)
	d.pause(true)
	d.join(d.joinRequest("bob"))
	again := d.join(d.joinRequest("ann"))
	d.wantStatus(again, sale.Waiting, sale.OK)
	if again.Ticket == st.Ticket || again.Ahead != 1 {
		d.Fatalf("Join again = %+v, want a new ticket behind bob's", again)
	}
	d.pause(false)
	d.wantRefused(d.reserve("ann", st.Ticket, ""), sale.NotAdmitted)
	d.wantRefused(d.reserve("ann", again.Ticket, ""), sale.NotAdmitted)
	d.poll("bob")
	d.poll("ann")
	d.wantCounts(sale.Counts{Stock: 5, Free: 5, Outstanding: 2})
	if o := d.reserve("ann", again.Ticket, ""); o.Reason != sale.OK {
		d.Fatalf("Reserve = %+v", o)
	}
	d.wantCounts(sale.Counts{Stock: 5, Free: 4, Reserved: 1, Backlog: 1, Outstanding: 1})
}

func direct(d *tester) {
	d.open(queueType(sale.Direct), d.starts(time.Second))
	ask := func(user string) sale.JoinRequest {
		j := d.joinRequest(user)
		j.Batch, j.Until = "batch", d.clock.Now().Add(time.Minute)
		return j
	}
	d.wantStatus(d.join(ask("ann")), sale.NoTicket, sale.NotStarted)
	d.advance(time.Second)
	st := d.join(ask("ann"))
	d.wantStatus(st, sale.Admitted, sale.OK)
	if st.Batch != "batch" || !st.Until.Equal(d.clock.Now().Add(time.Minute)) {
		d.Fatalf("Join = %+v", st)
	}
	d.wantCounts(sale.Counts{Stock: 5, Free: 5, Outstanding: 1})
	if again := d.join(ask("ann")); again.Ticket != st.Ticket {
		d.Fatalf("Join again = %+v, want the same ticket", again)
	}
	if o := d.reserve("ann", st.Ticket, ""); o.Reason != sale.OK {
		d.Fatalf("Reserve = %+v", o)
	}
	d.wantStatus(d.join(ask("ann")), sale.Spent, sale.PerUserLimit)
	if err := d.inventory.SetPaused(d.ctx, "sale", 1, true); err != nil {
		d.Fatal(err)
	}
	d.wantStatus(d.join(ask("bob")), sale.NoTicket, sale.IsPaused)
	d.wantCounts(sale.Counts{Stock: 5, Free: 4, Reserved: 1, Backlog: 1, Paused: true})
	if err := d.inventory.SetPaused(d.ctx, "sale", 1, false); err != nil {
		d.Fatal(err)
	}
	late := ask("bob")
	late.Until = d.clock.Now()
	d.wantStatus(d.join(late), sale.TicketExpired, sale.OK)
	d.wantStatus(d.join(ask("bob")), sale.Admitted, sale.OK)
	d.advance(2 * time.Hour)
	d.wantStatus(d.join(ask("cat")), sale.NoTicket, sale.HasEnded)
}

func queueFull(d *tester) {
	d.open(headroom(0))
	ask := func(user string) sale.TicketStatus {
		j := d.joinRequest(user)
		j.Max = 2
		return d.join(j)
	}
	ask("ann")
	ask("bob")
	d.wantStatus(ask("cat"), sale.NoTicket, sale.QueueFull)
	d.wantStatus(ask("bob"), sale.Waiting, sale.OK)
	d.wantQueue("ann", "bob")
	j := d.joinRequest("dan")
	j.Max, j.Batch, j.Until = 2, "batch", d.clock.Now().Add(time.Minute)
	d.wantStatus(d.join(j), sale.Admitted, sale.OK)
	d.wantStatus(d.pollToBuy("ann"), sale.Spent, sale.OK)
	d.wantStatus(ask("cat"), sale.Waiting, sale.OK)
	d.wantQueue("bob", "cat")
	d.wantStatus(d.join(d.joinRequest("eve")), sale.Waiting, sale.OK) // without a bound
}

func joinAgain(d *tester) {
	d.open(userLimit(2), paused)
	first := d.join(d.joinRequest("ann"))
	if again := d.join(d.joinRequest("ann")); again.Ticket != first.Ticket || again.Rank != first.Rank {
		d.Fatalf("Join again = %+v, want %+v", again, first)
	}
	d.wantQueue("ann")
	d.pause(false)
	d.wantStatus(d.join(d.joinRequest("ann")), sale.Admitted, sale.OK)
	d.wantStatus(d.join(d.joinRequest("ann")), sale.Admitted, sale.OK)
	r := d.reserve("ann", first.Ticket, "").Reservation
	j := d.joinRequest("ann")
	j.Ticket = first.Ticket
	st := d.join(j)
	d.wantStatus(st, sale.Spent, sale.OK)
	if InUTC(*st.Last) != InUTC(r) || len(st.Reserved) != 1 || InUTC(st.Reserved[0]) != InUTC(r) || st.Rank != first.Rank {
		d.Fatalf("Join with a spent ticket = %+v, want %+v", st, r)
	}
	d.pause(true)
	next := d.join(d.joinRequest("ann"))
	d.wantStatus(next, sale.Waiting, sale.OK)
	if next.Ticket == first.Ticket || len(next.Reserved) != 1 {
		d.Fatalf("Join for another unit = %+v", next)
	}
	d.wantStatus(d.status("unknown"), sale.NoTicket, sale.OK)
}
