package shop

import (
	"context"
	"errors"
	"time"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
)

// visit is one call of a user about a sale: all of it is decided by one snapshot.
type visit struct {
	*buyers
	user     string
	live     *liveSale // nil if the sale has ended and has no inventory state
	snapshot *snapshot
	view     sale.View
}

func (b *buyers) visit(ctx context.Context, user, id string) (*visit, error) {
	p, err := b.catalog.find(ctx, id)
	if err != nil {
		return nil, err
	}
	live := b.catalog.get(id)
	if live != nil {
		b.touch(live)
	}
	return &visit{buyers: b, user: user, live: live, snapshot: p, view: p.view(b.clock())}, nil
}

func (v *visit) sale() *sale.Sale { return &v.snapshot.sale }

// closedReason returns why nothing can be joined or bought in a phase, or OK.
func closedReason(p sale.Phase) sale.Reason {
	switch p {
	case sale.Upcoming:
		return sale.NotStarted
	case sale.SoldOut:
		return sale.IsSoldOut
	case sale.PhasePaused:
		return sale.IsPaused
	case sale.PhaseEnded:
		return sale.HasEnded
	}
	return sale.OK
}

// layerOf returns the layer that refuses for a reason.
func layerOf(r sale.Reason) sale.Layer {
	switch r {
	case sale.NotStarted, sale.HasEnded, sale.IsPaused, sale.IsSoldOut:
		return sale.L0
	case sale.IsAllTaken, sale.FewLeft, sale.PerUserLimit:
		return sale.LS
	case sale.Overloaded:
		return sale.L4
	}
	return sale.L3
}

// refuse counts a refusal, and returns its reason, its layer and when to retry; 0 for never.
func (v *visit) refuse(r sale.Reason) (sale.Reason, sale.Layer, time.Duration) {
	if r == sale.IsAllTaken && v.sale().Paid >= v.sale().Stock {
		r = sale.IsSoldOut
	}
	layer := layerOf(r)
	v.stats.countRefusal(layer, r)
	switch r {
	case sale.NotStarted:
		start := v.sale().StartsAt
		if v.sale().Queue == sale.Shuffled && v.view.Phase != sale.InLobby {
			start = start.Add(-v.sale().Lobby)
		}
		return r, layer, retryAfter(start.Sub(v.view.Now))
	case sale.IsAllTaken, sale.FewLeft, sale.QueueFull, sale.NotAdmitted:
		return r, layer, retryAfter(max(time.Second, v.view.Poll))
	case sale.IsPaused, sale.NoAdmission, sale.Overloaded:
		return r, layer, retryAfter(time.Second)
	}
	return r, layer, 0
}

// refused returns the status of a user without a ticket.
func (v *visit) refused(r sale.Reason) sale.QueueStatus {
	s := sale.QueueStatus{View: v.view, State: sale.NoTicket, Poll: v.view.Poll}
	s.Reason, s.Layer, s.RetryAfter = v.refuse(r)
	return s
}

func (v *visit) notBought(r sale.Reason) sale.BuyResult {
	var b sale.BuyResult
	b.Reason, b.Layer, b.RetryAfter = v.refuse(r)
	return b
}

// bought returns the result for a reservation. It is the same for every repetition.
func (v *visit) bought(r sale.Reservation, repeated bool) sale.BuyResult {
	return sale.BuyResult{Repeated: repeated, Receipt: v.receipt(r, *v.sale(), sale.Reserved)}
}

// stale returns the reason to refuse with if err says that the inventory has no state of the
// sale: it has ended, or it is paused until it is recovered.
func (v *visit) stale(err error) (sale.Reason, bool) {
	if !errors.Is(err, sale.ErrStale) {
		return sale.OK, false
	}
	if v.live != nil {
		signal(v.live.syncNow)
	}
	if v.view.Phase == sale.PhaseEnded {
		return sale.HasEnded, true
	}
	return sale.IsPaused, true
}

// unavailable returns the status after an error of the inventory.
func (v *visit) unavailable(err error) (sale.QueueStatus, error) {
	if reason, ok := v.stale(err); ok {
		return v.refused(reason), nil
	}
	return sale.QueueStatus{}, wrap("inventory", err)
}

func (v *visit) join(ctx context.Context, j sale.JoinRequest) (sale.QueueStatus, error) {
	v.crash.At(crashpoint.AdmitTaken)
	call, cancel := v.callToEnd(ctx)
	defer cancel()
	j.MaxBacklog = v.maxBacklog()
	at, err := v.inventory.Join(call, j)
	if err != nil {
		return v.unavailable(err)
	}
	return v.polled(at, j.Reservation, at.Ticket == j.Ticket && at.Reason == sale.OK), nil
}

// polled returns what the buyer sees after a Join or Poll of the inventory with a reservation
// to make, or none.
func (v *visit) polled(at sale.TicketStatus, reservation string, isNew bool) sale.QueueStatus {
	if at.NewTurn {
		v.countAdmission()
		v.crash.At(crashpoint.AdmitDone)
	}
	bought := reservation != "" && at.State == sale.Spent && at.Last.ID == reservation
	if bought {
		v.stats.buys.Add(1)
		v.stats.buysGranted.Add(1)
		v.acknowledge(v.live, *at.Last)
		v.crash.At(crashpoint.ReserveGranted)
	}
	s := v.status(at, isNew, reservation != "")
	s.Restored, s.Bought = at.Restored, bought
	return s
}

// countAdmission counts a ticket that this call admitted.
func (v *visit) countAdmission() {
	v.stats.admitted.Add(1)
	v.live.admitted.Add(1)
}

// joinDirect admits the user at once, if a token is free.
func (v *visit) joinDirect(ctx context.Context, j sale.JoinRequest) (sale.QueueStatus, error) {
	call, cancel := v.call(ctx)
	defer cancel()
	at, err := v.inventory.Status(call, j.Sale, j.Epoch, j.User)
	if err != nil {
		return v.unavailable(err)
	}
	switch {
	case at.State == sale.Admitted || at.State == sale.Waiting:
		return v.status(at, false, false), nil
	case v.exceeds(at.Reserved):
		at.Reason = sale.PerUserLimit
		return v.status(at, false, false), nil
	case v.view.Phase == sale.AllTaken:
		at.Reason = sale.IsAllTaken
		return v.status(at, false, false), nil
	}
	now := v.timeBeforeSlot(ctx)
	got, wait, err := v.admission.take(ctx, v.sale(), 1)
	if err != nil {
		v.stats.limitErrors.Add(1)
		return sale.QueueStatus{}, wrap("admission", err)
	}
	if got == 0 {
		at.Reason = sale.NoAdmission
		s := v.status(at, false, false)
		s.RetryAfter = retryAfter(min(wait, 10*time.Second))
		return s, nil
	}
	j.Batch, j.Until, j.Max, j.Rank = j.Ticket, now.Add(v.sale().TokenFor).Truncate(time.Millisecond), 0, 0
	s, err := v.join(ctx, j)
	v.crash.At(crashpoint.AdmitDone)
	switch {
	case err != nil:
	case s.New:
		v.countAdmission()
	default:
		v.live.useToken(v.sale().Epoch, j.Until) // no user has the token
	}
	return s, err
}

// exceeds reports whether the user would hold more units than allowed.
func (v *visit) exceeds(reserved []sale.Reservation) bool {
	units := int64(v.quantity)
	for i := range reserved {
		units += reserved[i].Units()
	}
	return units > int64(v.sale().PerUser) || v.maxUnits > 0 && units > int64(v.maxUnits)
}

// timeBeforeSlot returns a time of the inventory's clock that is not after the time at which
// a slot is taken next, so that a token ends before its slot.
func (v *visit) timeBeforeSlot(ctx context.Context) time.Time {
	counted := v.snapshot.counts.Now
	if now := v.snapshot.now(v.clock()); now.Sub(counted) <= 2*refreshEvery {
		return now
	}
	if c, err := v.count(ctx, v.sale().ID, v.sale().Epoch); err == nil {
		return c.Now
	}
	return counted
}

// statusAfterEnd returns the user's orders of a sale without an inventory state, if any.
func (v *visit) statusAfterEnd(ctx context.Context) (sale.QueueStatus, error) {
	call, cancel := v.call(ctx)
	defer cancel()
	orders, err := v.ledger.Orders(call, v.user)
	if err != nil {
		return sale.QueueStatus{}, wrap("orders", err)
	}
	s := sale.QueueStatus{View: v.view, State: sale.Spent, Poll: v.view.Poll}
	for _, o := range orders {
		if o.Sale == v.sale().ID && (o.State == sale.PendingPay || o.State == sale.Paid) {
			s.Reserved = append(s.Reserved, v.receiptOf(ctx, o))
		}
	}
	if len(s.Reserved) == 0 {
		return v.refused(sale.HasEnded), nil
	}
	return s, nil
}

// earlierRank returns the queue rank of a ticket of an earlier epoch, or 0. The ticket must
// not have bought a unit: a rebuilt inventory does not know that, but the ledger knows
// reservations that are later than the ticket. A ticket whose admission expired keeps its
// rank. While the ledger is unavailable every ticket does.
func (v *visit) earlierRank(ctx context.Context, ticket string) int64 {
	if ticket == "" {
		return 0
	}
	t, err := v.keys.OpenTicket(ticket)
	if err != nil || t.User != v.user || t.Sale != v.sale().ID || t.Epoch >= v.sale().Epoch || t.Rank < 0 || t.Rank > 1<<53 {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, v.timeout/10)
	defer cancel()
	orders, err := v.ledger.Orders(ctx, v.user)
	if err != nil {
		return t.Rank
	}
	for _, o := range orders {
		// A rank is the time of the ticket in µs, or a lot, which is less than any time.
		if o.Sale == t.Sale && o.At.Add(time.Millisecond).UnixMicro() > t.Rank {
			return 0
		}
	}
	return t.Rank
}

// status returns what the buyer sees of a ticket. buys is set if the buyer reserves as soon as
// possible.
func (v *visit) status(at sale.TicketStatus, isNew, buys bool) sale.QueueStatus {
	s := sale.QueueStatus{View: v.view, State: at.State, New: isNew, Ahead: at.Ahead, Poll: max(minPoll, v.view.Poll)}
	if at.Poll > 0 {
		s.Poll = at.Poll
	}
	if reason := v.ticketReason(at); reason != sale.OK {
		s.Reason, s.Layer, s.RetryAfter = v.refuse(reason)
		s.Left = at.Left
	}
	if at.Ticket != "" {
		s.Ticket = v.keys.Ticket(pass.Ticket{Sale: v.sale().ID, Epoch: v.sale().Epoch, User: v.user, Ticket: at.Ticket, Rank: at.Rank})
	}
	switch at.State {
	case sale.Waiting:
		v.setWait(&s, buys)
	case sale.Admitted:
		s.Token = v.keys.Token(pass.Token{Sale: v.sale().ID, Epoch: v.sale().Epoch, User: v.user,
			Ticket: at.Ticket, Batch: at.Batch, Until: at.Until})
		s.Until = at.Until
	}
	for _, r := range at.Reserved {
		s.Reserved = append(s.Reserved, v.receipt(r, *v.sale(), sale.Reserved))
	}
	return s
}

// ticketReason returns why a ticket cannot continue, or OK.
func (v *visit) ticketReason(at sale.TicketStatus) sale.Reason {
	if at.State == sale.Spent || at.Reason != sale.OK {
		return at.Reason
	}
	reason := closedReason(v.view.Phase)
	switch {
	case reason == sale.NotStarted && at.State == sale.Waiting:
		return sale.OK // the clock of this view is a moment behind the inventory's
	case reason == sale.IsPaused && (at.State == sale.Waiting || at.State == sale.Admitted):
		return sale.OK // a pause keeps the ticket
	case len(at.Reserved) > 0:
		return sale.OK // the user sees the reserved units, whatever the phase
	}
	return reason
}

// setWait sets the estimate of a waiting ticket.
func (v *visit) setWait(s *sale.QueueStatus, buys bool) {
	if v.view.Phase == sale.InLobby {
		return
	}
	w := v.live.wait(s.Ahead, v.quantity, buys)
	s.ETA, s.Low, s.High, s.Unlikely = w.For, w.Low(), w.High(), w.Unlikely
}

// reserve reserves a unit in the inventory.
func (v *visit) reserve(ctx context.Context, t pass.Token, key string) (sale.BuyResult, error) {
	if r := v.returnedUnit(ctx, t, key); r != nil {
		return v.bought(*r, true), nil
	}
	v.crash.At(crashpoint.ReserveAsked)
	call, cancel := v.call(ctx)
	defer cancel()
	// The epoch is the sale's, whatever the token's: a rebuilt inventory knows the tickets of
	// all units in pending and paid orders.
	out, err := v.inventory.Reserve(call, sale.ReserveRequest{Sale: t.Sale, Epoch: v.sale().Epoch, User: t.User,
		Ticket: t.Ticket, Key: key, Reservation: newID(), MaxUnits: v.maxUnits, Quantity: v.quantity})
	switch {
	case err != nil:
		return v.reserveFailed(ctx, t, err, sale.OK)
	case out.Reason == sale.NotAdmitted && t.Epoch < v.sale().Epoch:
		// A rebuilt inventory does not know expired and cancelled orders, nor those of this process
		// that orderFinder has not transferred yet.
		if r, ok := v.live.unsettledOf(t.User, t.Ticket); ok {
			return v.bought(r, true), nil
		}
		return v.boughtBefore(ctx, t, out.Reason)
	case out.Reason != sale.OK:
		refused := v.notBought(out.Reason)
		refused.Left = out.Left
		return refused, nil
	}
	if !out.Repeated {
		v.acknowledge(v.live, out.Reservation)
		v.live.useToken(out.Reservation.Epoch, t.Until)
	}
	v.crash.At(crashpoint.ReserveGranted)
	return v.bought(out.Reservation, out.Repeated), nil
}

// buyClosed returns what the ticket or the key bought before, or reason. It does not call
// Reserve, because the inventory may not know yet that the sale is paused.
func (v *visit) buyClosed(ctx context.Context, t pass.Token, key string, reason sale.Reason) (sale.BuyResult, error) {
	call, cancel := v.call(ctx)
	defer cancel()
	at, err := v.inventory.Status(call, t.Sale, v.sale().Epoch, t.User)
	if err != nil {
		return v.reserveFailed(ctx, t, err, reason)
	}
	if at.Last != nil && at.Last.Ticket == t.Ticket {
		return v.bought(*at.Last, true), nil
	}
	for _, r := range at.Reserved {
		if r.Ticket == t.Ticket || key != "" && r.Key == key {
			return v.bought(r, true), nil
		}
	}
	return v.notBought(reason), nil
}

// reserveFailed returns the result after an error of the inventory: reason or, if that is OK,
// what the error means.
func (v *visit) reserveFailed(ctx context.Context, t pass.Token, err error, reason sale.Reason) (sale.BuyResult, error) {
	meaning, ok := v.stale(err)
	if !ok {
		return sale.BuyResult{}, wrap("reserve", err)
	}
	if reason == sale.OK {
		reason = meaning
	}
	if reason == sale.HasEnded {
		return v.boughtBefore(ctx, t, sale.HasEnded)
	}
	return v.notBought(reason), nil
}
