package shop

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
)

// buyers implements sale.BuyerService.
type buyers struct {
	*env
	catalog    *catalog
	admission  *admission
	finder     *orderFinder
	sweeper    *sweeper
	networks   *networkRecorder
	keys       *pass.Keys
	maxWaiting int64
	maxUnits   int                         // of a user in a sale; 0 for its PerUser
	quantity   int                         // units of an order
	run        func(func(context.Context)) // calls a function in the background
}

// Limited implements sale.BuyerService.
func (b *buyers) Limited(units int) sale.BuyerService {
	limited := *b
	limited.maxUnits = units
	return &limited
}

// Now implements sale.BuyerService.
func (b *buyers) Now() time.Time { return b.now() }

// List implements sale.BuyerService.
func (b *buyers) List(context.Context) ([]sale.View, error) {
	now := b.clock()
	snapshots := b.catalog.snapshots()
	views := make([]sale.View, 0, len(snapshots))
	for _, p := range snapshots {
		views = append(views, p.view(now))
	}
	slices.SortFunc(views, func(a, b sale.View) int {
		ended := a.Phase == sale.PhaseEnded
		if ended != (b.Phase == sale.PhaseEnded) {
			if ended {
				return 1
			}
			return -1
		}
		byStart := a.Sale.StartsAt.Compare(b.Sale.StartsAt)
		if ended {
			byStart = -byStart
		}
		return cmp.Or(byStart, cmp.Compare(a.Sale.ID, b.Sale.ID))
	})
	return views, nil
}

// View implements sale.BuyerService.
func (b *buyers) View(ctx context.Context, id string) (sale.View, error) {
	p, err := b.catalog.find(ctx, id)
	if err != nil {
		return sale.View{}, err
	}
	if l := b.catalog.get(id); l != nil {
		b.touch(l)
	}
	return p.view(b.clock()), nil
}

// RecordNetwork implements sale.BuyerService.
func (b *buyers) RecordNetwork(user, id, network string) {
	b.networks.add(sale.NetworkUse{Sale: id, User: user, Network: network, At: b.now()})
}

// Join implements sale.BuyerService. Users can join while every unit is taken, because units
// of unpaid orders come back. A Direct sale has no queue.
func (b *buyers) Join(ctx context.Context, user, id, ticket string) (sale.QueueStatus, error) {
	b.stats.joins.Add(1)
	v, err := b.visit(ctx, user, id)
	if err == nil {
		err = v.checkQuantity()
	}
	if err != nil {
		return sale.QueueStatus{}, err
	}
	if reason := closedReason(v.view.Phase); reason != sale.OK {
		return v.refused(reason), nil
	}
	if v.live == nil {
		return v.refused(sale.HasEnded), nil
	}
	j := v.joinRequest(ctx, ticket)
	if v.sale().Queue == sale.Direct {
		return v.joinDirect(ctx, j)
	}
	return v.join(ctx, j)
}

// Click implements sale.BuyerService.
func (b *buyers) Click(ctx context.Context, user, id, ticket, key string) (sale.QueueStatus, error) {
	if !sale.IsKey(key) {
		return sale.QueueStatus{}, fmt.Errorf("shop: %w: Idempotency-Key: got %d bytes, want at most 64 printable characters", sale.ErrInvalid, len(key))
	}
	v, err := b.visit(ctx, user, id)
	if err == nil {
		err = v.checkQuantity()
	}
	if err != nil {
		return sale.QueueStatus{}, err
	}
	t, err := b.keys.OpenTicket(ticket)
	known := err == nil && t.User == user && t.Sale == id && t.Epoch == v.sale().Epoch
	switch {
	case v.sale().Queue == sale.Direct:
		return b.Join(ctx, user, id, ticket)
	case key == "" && known:
		return b.look(ctx, v, ticket, newID())
	}
	b.stats.joins.Add(1)
	if reason := closedReason(v.view.Phase); reason != sale.OK {
		return v.refused(reason), nil
	}
	if v.live == nil {
		return v.refused(sale.HasEnded), nil
	}
	j := v.joinRequest(ctx, ticket)
	if key != "" {
		j.Ticket = ticketOf(user, id, key)
	}
	j.Reservation = newID()
	v.crash.At(crashpoint.ReserveAsked)
	return v.join(ctx, j)
}

// ticketOf returns the ID of the ticket that a click with a key makes.
func ticketOf(user, id, key string) string {
	sum := sha256.Sum256([]byte(user + "\x00" + id + "\x00" + key))
	return "click-" + hex.EncodeToString(sum[:16])
}

// joinRequest returns a request for a ticket in the queue.
func (v *visit) joinRequest(ctx context.Context, ticket string) sale.JoinRequest {
	j := sale.JoinRequest{Sale: v.sale().ID, Epoch: v.sale().Epoch, User: v.user, Ticket: newID(), Max: v.maxWaiting, MaxUnits: v.maxUnits, Quantity: v.quantity, Rank: v.earlierRank(ctx, ticket)}
	if v.view.Phase == sale.InLobby {
		j.Lot = 1 + rand.Int64N(sale.MaxLot)
	}
	return j
}

// Status implements sale.BuyerService.
func (b *buyers) Status(ctx context.Context, user, id, ticket string) (sale.QueueStatus, error) {
	v, err := b.visit(ctx, user, id)
	if err != nil {
		return sale.QueueStatus{}, err
	}
	return b.look(ctx, v, ticket, "")
}

// look polls, and reserves a unit if reservation is not empty and the user's turn has come.
func (b *buyers) look(ctx context.Context, v *visit, ticket, reservation string) (sale.QueueStatus, error) {
	b.stats.statusRequests.Add(1)
	if v.live == nil {
		return v.statusAfterEnd(ctx)
	}
	if reservation != "" {
		v.crash.At(crashpoint.ReserveAsked)
	}
	at, err := v.poll(ctx, reservation)
	if err != nil {
		if errors.Is(err, sale.ErrStale) && v.view.Phase == sale.PhaseEnded {
			return v.statusAfterEnd(ctx)
		}
		return v.unavailable(err)
	}
	direct := v.sale().Queue == sale.Direct
	if direct && v.view.Phase == sale.AllTaken && at.State != sale.Admitted && len(at.Reserved) == 0 && at.Reason == sale.OK {
		at.Reason = sale.IsAllTaken
	}
	if at.State == sale.NoTicket && closedReason(v.view.Phase) == sale.OK && !direct {
		if rank := v.earlierRank(ctx, ticket); rank > 0 {
			j := v.joinRequest(ctx, ticket)
			j.Lot, j.Reservation = 0, reservation
			return v.join(ctx, j)
		}
	}
	return v.polled(at, reservation, false), nil
}

// Buy implements sale.BuyerService. A genuine token is checked with the inventory even when
// nothing can be bought any more, because it may have bought a unit before.
func (b *buyers) Buy(ctx context.Context, user, id, token, key string) (r sale.BuyResult, err error) {
	b.stats.buys.Add(1)
	defer func() { b.stats.bought(r, err).Add(1) }()
	if !sale.IsKey(key) {
		return sale.BuyResult{}, fmt.Errorf("shop: %w: Idempotency-Key: got %d bytes, want at most 64 printable characters", sale.ErrInvalid, len(key))
	}
	v, err := b.visit(ctx, user, id)
	if err == nil {
		err = v.checkQuantity()
	}
	if err != nil {
		return sale.BuyResult{}, err
	}
	reason := closedReason(v.view.Phase)
	t, err := b.keys.OpenToken(token)
	switch {
	case err != nil || t.User != user || t.Sale != id:
		if token == "" && reason != sale.OK {
			return v.notBought(reason), nil
		}
		return v.notBought(sale.BadToken), nil
	case v.live == nil:
		return v.boughtBefore(ctx, t, sale.HasEnded)
	case reason != sale.OK && reason != sale.IsSoldOut:
		return v.buyClosed(ctx, t, key, reason)
	}
	return v.reserve(ctx, t, key)
}

// Order implements sale.BuyerService.
func (b *buyers) Order(ctx context.Context, user, receipt string) (sale.Receipt, error) {
	r, err := b.openReceipt(user, receipt)
	if err != nil {
		return sale.Receipt{}, err
	}
	o, err := b.finder.find(ctx, r)
	if err != nil {
		return sale.Receipt{}, err
	}
	return b.receiptOf(ctx, o), nil
}

// Orders implements sale.BuyerService.
func (b *buyers) Orders(ctx context.Context, user string) ([]sale.Receipt, error) {
	call, cancel := b.call(ctx)
	defer cancel()
	orders, err := b.ledger.Orders(call, user)
	if err != nil {
		return nil, wrap("orders", err)
	}
	rs := make([]sale.Receipt, 0, len(orders))
	for _, o := range orders {
		rs = append(rs, b.receiptOf(ctx, o))
	}
	return rs, nil
}

// Cancel implements sale.BuyerService.
func (b *buyers) Cancel(ctx context.Context, user, receipt string) (sale.Receipt, error) {
	r, err := b.openReceipt(user, receipt)
	if err != nil {
		return sale.Receipt{}, err
	}
	call, cancel := b.call(ctx)
	defer cancel()
	o, err := b.ledger.Cancel(call, user, r.ID, b.now())
	if errors.Is(err, sale.ErrNotFound) {
		if o, err = b.finder.find(ctx, r); err != nil {
			return sale.Receipt{}, err
		}
		return sale.Receipt{}, fmt.Errorf("shop: cancel: %w: the reservation is %s, want a pending order", sale.ErrConflict, o.State)
	}
	if err != nil {
		return sale.Receipt{}, wrap("cancel", err)
	}
	b.stats.cancelled.Add(1)
	// Return the unit at once; if that fails, the sweeper does.
	if _, err := b.sweeper.returnUnits(ctx, []sale.Order{o}); err != nil {
		signal(b.sweeper.wake)
	}
	return b.receiptOf(ctx, o), nil
}

// Pay implements sale.BuyerService. A payment for a reservation without an order yet is
// ErrUnavailable, so that the provider retries. A payment for a reservation that never
// becomes an order is a refund, recorded once in the audit log.
func (b *buyers) Pay(ctx context.Context, receipt, payment string, amount int64) (sale.PayResult, error) {
	r, err := b.keys.OpenReceipt(receipt)
	if err != nil {
		return sale.PayResult{}, fmt.Errorf("shop: receipt: %w", sale.ErrNotFound)
	}
	p := sale.Payment{ID: payment, Reservation: r.ID, Amount: amount}
	paid, err := b.pay(ctx, p)
	if errors.Is(err, sale.ErrNotFound) {
		o, failed := b.finder.find(ctx, r)
		switch {
		case failed != nil:
			return sale.PayResult{}, failed
		case o.State == sale.Reserved:
			return sale.PayResult{}, fmt.Errorf("shop: pay: %w: the order is not written yet", sale.ErrUnavailable)
		}
		paid, err = b.pay(ctx, p) // the ledger has the reservation by now
	}
	if err != nil {
		return sale.PayResult{}, wrap("pay", err)
	}
	b.applied(paid)
	if paid.Repeated {
		return paid, nil
	}
	if state := paid.Order.State; state == sale.Lost || state == sale.Rejected {
		// There is no order that would show the refund to the merchant.
		event := fmt.Sprintf("refund due: payment %s of %d for reservation %s, which is %s", payment, amount, r.ID, state)
		call, cancel := b.callToEnd(ctx)
		defer cancel()
		if err := b.ledger.AppendAudit(call, "payments", r.Sale, event, b.now()); err != nil {
			b.log.Warn("refund not recorded in the audit log", "sale", r.Sale, "refund", event, "error", err)
		}
	}
	return paid, nil
}

// applied counts a payment that the ledger has applied, and reports that a sale is sold out.
func (b *buyers) applied(p sale.PayResult) {
	if p.SoldOut > 0 {
		b.markSoldOut(p.Order.Sale, p.SoldOut)
	}
	if !p.Repeated {
		b.stats.paid(p).Add(1)
	}
}

func (b *buyers) pay(ctx context.Context, p sale.Payment) (sale.PayResult, error) {
	ctx, cancel := b.callToEnd(ctx)
	defer cancel()
	return b.ledger.Pay(ctx, p, b.now())
}

// markSoldOut reports to all processes, through the inventory, that every unit of a sale is
// paid. They also read it from the ledger, but that may be slow. If the call fails, the
// inventorySync tries again.
func (b *buyers) markSoldOut(id string, units int64) {
	l := b.catalog.get(id)
	if l == nil || l.snapshot.Load().counts.Paid >= units {
		return
	}
	l.setPaid(units)
	b.run(func(ctx context.Context) { // does not delay the payment's response
		ctx, cancel := b.call(ctx)
		defer cancel()
		if b.inventory.SetPaid(ctx, id, l.snapshot.Load().sale.Epoch, units) != nil {
			signal(l.syncNow)
		}
	})
}

func (b *buyers) receipt(r sale.Reservation, of sale.Sale, state sale.OrderState) sale.Receipt {
	return sale.Receipt{Receipt: b.keys.Receipt(r), Order: r.ID, Sale: of, State: state, At: r.At, PayBy: r.PayBy,
		Quantity: int(r.Units()), Price: of.Price * r.Units()}
}

func (b *buyers) receiptOf(ctx context.Context, o sale.Order) sale.Receipt {
	of := sale.Sale{ID: o.Sale}
	of.Price = o.Price
	if p, err := b.catalog.find(ctx, o.Sale); err == nil {
		of = p.sale
	}
	r := b.receipt(o.Reservation, of, o.State)
	if o.State != sale.Reserved { // a reservation has no price in the ledger yet
		r.Price = o.Price
	}
	r.Refunds, r.Refunded, r.Contact = o.Refunds, o.Refunded, o.Contact
	return r
}

// openReceipt returns the reservation of a receipt. A receipt of another user is not found.
func (b *buyers) openReceipt(user, receipt string) (sale.Reservation, error) {
	r, err := b.keys.OpenReceipt(receipt)
	if err != nil || r.User != user {
		return r, fmt.Errorf("shop: receipt: %w", sale.ErrNotFound)
	}
	return r, nil
}
