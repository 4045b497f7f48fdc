package shop

import (
	"context"
	"errors"
	"fmt"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
)

// Buy implements sale.BuyerService. A token that is genuine goes to the Inventory even when nothing
// can be bought any more: its holder may ask for what it has got before.
func (s *Shop) Buy(ctx context.Context, user, id, token, key string) (sale.BuyResult, error) {
	s.tally.buys.Add(1)
	b, err := s.buy(ctx, user, id, token, key)
	switch {
	case err != nil:
		s.tally.buyErrors.Add(1)
	case b.Reason != sale.OK:
		s.tally.buysRefused.Add(1)
	case b.Repeated:
		s.tally.buysAgain.Add(1)
	default:
		s.tally.buysGranted.Add(1)
	}
	return b, err
}

func (s *Shop) buy(ctx context.Context, user, id, token, key string) (sale.BuyResult, error) {
	if !isKey(key) {
		return sale.BuyResult{}, fmt.Errorf("shop: %w: Idempotency-Key: got %d bytes, want at most 64 printable characters", sale.ErrInvalid, len(key))
	}
	p, err := s.saleOf(ctx, id)
	if err != nil {
		return sale.BuyResult{}, err
	}
	v := p.view(s.Clock())
	t, err := s.Keys.OpenToken(token)
	if err != nil || t.User != user || t.Sale != id {
		// Nothing can come of it; who has none is told first what is true of the sale.
		if why := closed(v.Phase); token == "" && why != sale.OK {
			return s.boughtNot(why, &v), nil
		}
		return s.boughtNot(sale.BadToken, &v), nil
	}
	l := s.live(id)
	if l == nil {
		return s.boughtBefore(ctx, p, &v, t, sale.HasEnded)
	}
	if why := closed(v.Phase); why != sale.OK && why != sale.IsSoldOut {
		return s.buyClosed(ctx, l, p, &v, t, key, why)
	}
	return s.reserve(ctx, l, p, &v, t, key)
}

// reserve asks the Inventory for a unit.
func (s *Shop) reserve(ctx context.Context, l *live, p *snapshot, v *sale.View, t pass.Token, key string) (sale.BuyResult, error) {
	if r := s.keyed(ctx, p, t, key); r != nil {
		return s.bought(*r, p, true), nil
	}
	s.Crash.At(crashpoint.ReserveAsked)
	ask, cancel := s.within(ctx)
	defer cancel()
	// At the sale's epoch, whatever the token's: an Inventory that was built again knows the
	// tickets that hold units.
	out, err := s.Inventory.Reserve(ask, sale.ReserveRequest{Sale: t.Sale, Epoch: p.sale.Epoch, User: t.User,
		Ticket: t.Ticket, Key: key, Reservation: newID()})
	if err != nil {
		if why, ok := s.stale(l, v, err); ok {
			if why == sale.HasEnded {
				return s.boughtBefore(ctx, p, v, t, sale.HasEnded)
			}
			return s.boughtNot(why, v), nil
		}
		return sale.BuyResult{}, away("reserve", err)
	}
	if out.Reason == sale.NotAdmitted && t.Epoch < p.sale.Epoch {
		// An Inventory that was built again knows of no order that is over.
		return s.boughtBefore(ctx, p, v, t, out.Reason)
	}
	if out.Reason != sale.OK {
		return s.boughtNot(out.Reason, v), nil
	}
	if !out.Repeated {
		l.remember(out.Reservation, s.Clock())
		l.use(out.Reservation.Epoch, t.Until)
	}
	s.Crash.At(crashpoint.ReserveGranted)
	return s.bought(out.Reservation, p, out.Repeated), nil
}

// buyClosed answers while nothing can be bought: with what the ticket or the key has got
// before, or the reason why not. It asks the Inventory for nothing, which may not know yet that
// the sale is paused.
func (s *Shop) buyClosed(ctx context.Context, l *live, p *snapshot, v *sale.View, t pass.Token, key string, why sale.Reason) (sale.BuyResult, error) {
	ask, cancel := s.within(ctx)
	defer cancel()
	at, err := s.Inventory.Status(ask, t.Sale, p.sale.Epoch, t.User)
	if err != nil {
		if _, ok := s.stale(l, v, err); ok {
			if why == sale.HasEnded {
				return s.boughtBefore(ctx, p, v, t, sale.HasEnded)
			}
			return s.boughtNot(why, v), nil
		}
		return sale.BuyResult{}, away("reserve", err)
	}
	if at.Last != nil && at.Last.Ticket == t.Ticket {
		return s.bought(*at.Last, p, true), nil
	}
	for _, r := range at.Reserved {
		if r.Ticket == t.Ticket || key != "" && r.Key == key {
			return s.bought(r, p, true), nil
		}
	}
	return s.boughtNot(why, v), nil
}

// boughtBefore answers from the Ledger what a token has got, of an Inventory that is gone; or why
// it gets nothing.
func (s *Shop) boughtBefore(ctx context.Context, p *snapshot, v *sale.View, t pass.Token, why sale.Reason) (sale.BuyResult, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	orders, err := s.Ledger.Orders(ctx, t.User)
	if err != nil && !errors.Is(err, sale.ErrNotFound) {
		return sale.BuyResult{}, away("orders", err)
	}
	for _, o := range orders {
		if o.Sale == t.Sale && o.Ticket == t.Ticket {
			return s.bought(o.Reservation, p, true), nil
		}
	}
	return s.boughtNot(why, v), nil
}

// keyed is what a key of the user's got in an earlier epoch of the sale, or nil. An Inventory that
// was built again knows of no order that is over, and the key would buy another unit. A
// Ledger that is away keeps nobody from buying: this is then not seen.
func (s *Shop) keyed(ctx context.Context, p *snapshot, t pass.Token, key string) *sale.Reservation {
	if key == "" || p.sale.Epoch == 1 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.Deadline/10)
	defer cancel()
	orders, err := s.Ledger.Orders(ctx, t.User)
	if err != nil {
		return nil
	}
	for _, o := range orders {
		if o.Sale == t.Sale && o.Key == key && o.Epoch < p.sale.Epoch && (o.State == sale.Expired || o.State == sale.Cancelled) {
			return &o.Reservation
		}
	}
	return nil
}

// bought is the answer to who has a unit, the same one however often it is asked for.
func (s *Shop) bought(r sale.Reservation, p *snapshot, again bool) sale.BuyResult {
	return sale.BuyResult{Repeated: again, Receipt: s.receipt(r, p.sale, sale.Reserved)}
}

func (s *Shop) boughtNot(why sale.Reason, v *sale.View) sale.BuyResult {
	f := s.refuse(why, v)
	return sale.BuyResult{Reason: f.reason, Layer: f.layer, RetryAfter: f.after}
}

// isKey reports whether key is an Idempotency-Key, or none.
func isKey(key string) bool {
	if len(key) > 64 {
		return false
	}
	for i := range len(key) {
		if key[i] < 0x20 || key[i] > 0x7e {
			return false
		}
	}
	return true
}
