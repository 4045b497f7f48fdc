package shop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
)

// Join implements sale.BuyerService. While every unit is taken one may still join: units come
// back from those who do not pay. In a Direct sale there is no line to wait in.
func (s *Shop) Join(ctx context.Context, user, id, place string) (sale.QueueStatus, error) {
	s.tally.joins.Add(1)
	p, err := s.saleOf(ctx, id)
	if err != nil {
		return sale.QueueStatus{}, err
	}
	v := p.view(s.Clock())
	if why := closed(v.Phase); why != sale.OK {
		return s.refused(why, &v, sale.NoTicket), nil
	}
	l := s.live(id)
	if l == nil {
		return s.refused(sale.HasEnded, &v, sale.NoTicket), nil
	}
	j := sale.JoinRequest{Sale: id, Epoch: p.sale.Epoch, User: user, Ticket: newID(), Max: s.MaxWaiting,
		Rank: s.rankOf(ctx, place, user, p)}
	if p.sale.Queue == sale.Direct {
		return s.joinDirect(ctx, l, p, &v, j)
	}
	if v.Phase == sale.InLobby {
		j.Lot = 1 + rand.Int64N(sale.MaxLot)
	}
	return s.join(ctx, l, p, &v, j)
}

// join asks the Inventory for the ticket, and tells what it says.
func (s *Shop) join(ctx context.Context, l *live, p *snapshot, v *sale.View, j sale.JoinRequest) (sale.QueueStatus, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	at, err := s.Inventory.Join(ctx, j)
	if err != nil {
		return s.gateError(l, v, err)
	}
	if l.joined.Add(1) == 1 && p.counts.Waiting == 0 {
		kick(l.wake)
	}
	return s.turnOf(l, p, v, j.User, at, at.Ticket == j.Ticket && at.Reason == sale.OK), nil
}

// joinDirect admits at once, if a token is to be had.
func (s *Shop) joinDirect(ctx context.Context, l *live, p *snapshot, v *sale.View, j sale.JoinRequest) (sale.QueueStatus, error) {
	ask, cancel := s.within(ctx)
	defer cancel()
	at, err := s.Inventory.Status(ask, j.Sale, j.Epoch, j.User)
	if err != nil {
		return s.gateError(l, v, err)
	}
	if at.State == sale.Admitted || at.State == sale.Waiting {
		return s.turnOf(l, p, v, j.User, at, false), nil
	}
	full := len(at.Reserved) >= p.sale.PerUser
	switch {
	case full:
		at.Reason = sale.PerUserLimit
		return s.turnOf(l, p, v, j.User, at, false), nil
	case v.Phase == sale.AllTaken:
		at.Reason = sale.IsAllTaken
		return s.turnOf(l, p, v, j.User, at, false), nil
	}
	// By the Inventory's clock, and not later than it is when the slot is taken: the token ends
	// before its slot.
	now := p.counts.Now
	if c := p.now(s.Clock()); c.Sub(now) <= 2*refreshEvery {
		now = c
	} else if c, err := s.count(ctx, j.Sale, j.Epoch); err == nil {
		now = c.Now
	}
	got, wait, err := s.take(ctx, &p.sale, 1)
	if err != nil {
		s.tally.limitsAway.Add(1)
		return sale.QueueStatus{}, fmt.Errorf("shop: admission: %w: %w", sale.ErrUnavailable, err)
	}
	if got == 0 {
		at.Reason = sale.NoAdmission
		t := s.turnOf(l, p, v, j.User, at, false)
		t.RetryAfter = again(min(wait, 10*time.Second))
		return t, nil
	}
	s.Crash.At(crashpoint.AdmitTaken)
	j.Batch, j.Until, j.Max, j.Rank = j.Ticket, now.Add(p.sale.TokenFor).Truncate(time.Millisecond), 0, 0
	t, err := s.join(ctx, l, p, v, j)
	s.Crash.At(crashpoint.AdmitDone)
	switch {
	case err != nil:
	case t.New:
		s.tally.admitted.Add(1)
	default:
		l.use(p.sale.Epoch, j.Until) // nobody has the token
	}
	return t, err
}

// Turn implements sale.BuyerService.
func (s *Shop) Status(ctx context.Context, user, id, place string) (sale.QueueStatus, error) {
	s.tally.turns.Add(1)
	p, err := s.saleOf(ctx, id)
	if err != nil {
		return sale.QueueStatus{}, err
	}
	v := p.view(s.Clock())
	l := s.live(id)
	if l == nil {
		return s.turnAfter(ctx, user, p, &v)
	}
	ask, cancel := s.within(ctx)
	defer cancel()
	at, err := s.Inventory.Status(ask, id, p.sale.Epoch, user)
	if err != nil {
		if errors.Is(err, sale.ErrStale) && v.Phase == sale.PhaseEnded {
			return s.turnAfter(ctx, user, p, &v)
		}
		return s.gateError(l, &v, err)
	}
	if p.sale.Queue == sale.Direct && v.Phase == sale.AllTaken && at.State != sale.Admitted && len(at.Reserved) == 0 && at.Reason == sale.OK {
		at.Reason = sale.IsAllTaken
	}
	if at.State == sale.NoTicket && closed(v.Phase) == sale.OK && p.sale.Queue != sale.Direct {
		if rank := s.rankOf(ctx, place, user, p); rank > 0 {
			return s.join(ctx, l, p, &v, sale.JoinRequest{Sale: id, Epoch: p.sale.Epoch, User: user,
				Ticket: newID(), Rank: rank, Max: s.MaxWaiting})
		}
	}
	return s.turnOf(l, p, &v, user, at, false), nil
}

// turnAfter tells a user what is held of a sale whose Inventory is gone, if anything is.
func (s *Shop) turnAfter(ctx context.Context, user string, p *snapshot, v *sale.View) (sale.QueueStatus, error) {
	ask, cancel := s.within(ctx)
	defer cancel()
	orders, err := s.Ledger.Orders(ask, user)
	if err != nil {
		return sale.QueueStatus{}, away("orders", err)
	}
	t := sale.QueueStatus{View: *v, State: sale.Spent, Poll: v.Poll}
	for _, o := range orders {
		if o.Sale == p.sale.ID && (o.State == sale.PendingPay || o.State == sale.Paid) {
			t.Reserved = append(t.Reserved, s.receiptOf(ctx, o))
		}
	}
	if len(t.Reserved) == 0 {
		return s.refused(sale.HasEnded, v, sale.NoTicket), nil
	}
	return t, nil
}

// rankOf is the rank of a place that the user had in an earlier epoch of the sale and did not
// use, or 0. An Inventory that was built again does not know who had a turn; the Ledger knows who
// reserved a unit after the ticket was given. Who let a turn pass may have it again. A Ledger
// that is away takes nobody's place.
func (s *Shop) rankOf(ctx context.Context, place, user string, p *snapshot) int64 {
	if place == "" {
		return 0
	}
	t, err := s.Keys.OpenTicket(place)
	if err != nil || t.User != user || t.Sale != p.sale.ID || t.Epoch >= p.sale.Epoch || t.Rank < 0 || t.Rank > 1<<53 {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, s.Deadline/10)
	defer cancel()
	orders, err := s.Ledger.Orders(ctx, user)
	if err != nil {
		return t.Rank
	}
	for _, o := range orders {
		// A rank is when the ticket was given, in µs, or a lot, which is less than any time.
		if o.Sale == t.Sale && o.At.Add(time.Millisecond).UnixMicro() > t.Rank {
			return 0
		}
	}
	return t.Rank
}

// turnOf tells a user what the Inventory says of a ticket, which may be new, and that all is over
// if it is.
func (s *Shop) turnOf(l *live, p *snapshot, v *sale.View, user string, at sale.TicketStatus, isNew bool) sale.QueueStatus {
	t := sale.QueueStatus{View: *v, State: at.State, New: isNew, Ahead: at.Ahead, Poll: v.Poll}
	why := at.Reason
	if at.State != sale.Spent && why == sale.OK {
		switch why = closed(v.Phase); {
		case why == sale.NotStarted && at.State == sale.Waiting:
			why = sale.OK // the clock of this answer is a moment behind
		case why == sale.IsPaused && (at.State == sale.Waiting || at.State == sale.Admitted):
			why = sale.OK // it keeps its place
		case len(at.Reserved) > 0:
			why = sale.OK // and is told what it holds, whatever the sale does
		}
	}
	if why != sale.OK {
		f := s.refuse(why, v)
		t.Reason, t.Layer, t.RetryAfter = f.reason, f.layer, f.after
	}
	if at.Ticket != "" {
		t.Ticket = s.Keys.Ticket(pass.Ticket{Sale: p.sale.ID, Epoch: p.sale.Epoch, User: user, Ticket: at.Ticket, Rank: at.Rank})
	}
	switch at.State {
	case sale.Waiting:
		t.ETA = etaOf(at.Ahead, l.admissions())
		least := pollLeast
		if isNew {
			least = pollFirst
		}
		t.Poll = turnPoll(p.counts.Waiting, at.Ahead, t.ETA, p.sale.TokenFor, s.drain.shown())
		if v.Phase == sale.InLobby {
			t.ETA = 0
			t.Poll = min(max(t.Poll, pollOf(p.counts.Waiting)), p.sale.StartsAt.Sub(v.Now)+pollFirst)
		}
		t.Poll = max(least, t.Poll)
	case sale.Admitted:
		t.Token = s.Keys.Token(pass.Token{Sale: p.sale.ID, Epoch: p.sale.Epoch, User: user,
			Ticket: at.Ticket, Batch: at.Batch, Until: at.Until})
		t.Until = at.Until
	}
	for _, r := range at.Reserved {
		t.Reserved = append(t.Reserved, s.receipt(r, p.sale, sale.Reserved))
	}
	return t
}

// refused is a turn without a ticket.
func (s *Shop) refused(why sale.Reason, v *sale.View, place sale.TicketState) sale.QueueStatus {
	f := s.refuse(why, v)
	return sale.QueueStatus{Reason: f.reason, Layer: f.layer, RetryAfter: f.after, View: *v, State: place, Poll: v.Poll}
}

// gateError tells what it means that the Inventory could not answer: of a sale that is being
// recovered, that it is paused for a moment; of one that has ended, that.
func (s *Shop) gateError(l *live, v *sale.View, err error) (sale.QueueStatus, error) {
	if why, ok := s.stale(l, v, err); ok {
		return s.refused(why, v, sale.NoTicket), nil
	}
	return sale.QueueStatus{}, away("inventory", err)
}

// stale tells why an Inventory has no state of a sale.
func (s *Shop) stale(l *live, v *sale.View, err error) (sale.Reason, bool) {
	if !errors.Is(err, sale.ErrStale) {
		return sale.OK, false
	}
	if l != nil {
		kick(l.kept)
	}
	if v.Phase == sale.PhaseEnded {
		return sale.HasEnded, true
	}
	return sale.IsPaused, true
}
