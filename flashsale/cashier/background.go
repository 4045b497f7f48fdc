package cashier

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/payments"
	"github.com/floodweir/weir/flashsale/sale"
)

const (
	settleEvery  = 500 * time.Millisecond
	closeWithin  = 2 * time.Second
	queryWithin  = 5 * time.Second
	refundWithin = 10 * time.Second
	leaseFor     = 30 * time.Second
	askEvery     = 2 * time.Minute // about an open payment
	pendingEvery = 10 * time.Minute
	maxSettle    = 200 // payments or refunds of one round
	maxCalls     = 32  // calls of providers in progress, of each kind
	maxRefunds   = 10  // tries of a refund before it is a dead letter
)

// backoff returns the wait after the n-th failed try.
func backoff(n int) time.Duration {
	waits := []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour}
	return waits[min(max(n, 0), len(waits)-1)]
}

// Start starts the background work.
func (k *Cashier) Start() {
	if len(k.names) == 0 {
		return
	}
	k.every(settleEvery, k.settle)
	k.every(time.Second, k.refund)
	k.every(time.Second, k.applyWaiting)
}

// Stop stops the background work. Calls in progress are aborted and repeated later.
func (k *Cashier) Stop() {
	k.cancel()
	k.ended.Wait()
}

func (k *Cashier) every(period time.Duration, work func(context.Context) error) {
	k.ended.Go(func() {
		tick := time.NewTicker(period)
		defer tick.Stop()
		for {
			select {
			case <-k.ctx.Done():
				return
			case <-tick.C:
			}
			if err := work(k.ctx); err != nil && k.ctx.Err() == nil {
				k.c.Log.Warn("payments: ledger failed, will retry", "error", err)
			}
		}
	})
}

// each calls f for all, a few at once.
func each[T any](all []T, f func(T)) {
	var calls sync.WaitGroup
	slots := make(chan struct{}, maxCalls)
	for _, v := range all {
		slots <- struct{}{}
		calls.Go(func() {
			defer func() { <-slots }()
			f(v)
		})
	}
	calls.Wait()
}

// applyWaiting applies events whose reservations became known in other ways than as orders.
func (k *Cashier) applyWaiting(ctx context.Context) error {
	done, err := k.c.Ledger.ApplyWaiting(ctx, k.c.Shop.Now(), maxSettle)
	for _, p := range done {
		k.applied(ctx, "that waited", p)
	}
	return err
}

// settle asks about payments that are open for a while, and closes those whose time is up.
func (k *Cashier) settle(ctx context.Context) error {
	now := k.c.Shop.Now()
	due, err := k.c.Ledger.LeaseCheckouts(ctx, k.names, now, now.Add(leaseFor), maxSettle)
	if err != nil {
		return err
	}
	each(due, func(c sale.Checkout) {
		next, err := k.settleOne(ctx, c)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			k.stats.errors.Add(1)
			k.c.Log.Warn("payment not settled, will retry", "payment", c.ID(), "tries", c.Tries+1, "error", err)
			next = k.c.Shop.Now().Add(backoff(c.Tries))
		}
		if next.IsZero() {
			return
		}
		if err := k.c.Ledger.PostponeCheckout(ctx, c.ID(), next, err != nil); err != nil {
			k.c.Log.Warn("payments: ledger failed, will retry", "error", err)
		}
	})
	return nil
}

// settleOne asks for or decides the outcome of one payment. It returns when to ask again; zero
// if the payment is decided.
func (k *Cashier) settleOne(ctx context.Context, c sale.Checkout) (next time.Time, err error) {
	p := k.c.Providers[c.Provider]
	k.stats.settled.Add(1)
	if c.Order == sale.Reserved {
		k.find(ctx, c)
	}
	now := k.c.Shop.Now()
	over := !now.Before(c.PayBy) || c.Order != sale.PendingPay && c.Order != sale.Reserved
	if over {
		call, cancel := context.WithTimeout(ctx, closeWithin)
		err = p.Close(call, c.Ref)
		cancel()
		if err == nil || errors.Is(err, payments.ErrNotFound) { // what the provider does not know cannot be paid
			k.c.Crash.At(crashpoint.CheckoutClosed)
			k.stats.closed.Add(1)
			return time.Time{}, k.record(ctx, c.Provider, payments.Event{Ref: c.Ref, Receipt: c.Reservation, Kind: payments.Closed, At: now})
		}
		if !errors.Is(err, payments.ErrPaid) {
			return next, fmt.Errorf("close: %w", err)
		}
	}
	call, cancel := context.WithTimeout(ctx, queryWithin)
	e, err := p.Query(call, c.Ref)
	cancel()
	switch {
	case err != nil:
		return next, fmt.Errorf("query: %w", err)
	case e.Ref != c.Ref || e.Receipt != "" && e.Receipt != c.Reservation:
		return next, fmt.Errorf("query: got ref %.60q and receipt %.60q, want %q and %q", e.Ref, e.Receipt, c.Ref, c.Reservation)
	}
	e.Receipt = c.Reservation
	if e.Kind > payments.Paid { // it was paid before
		paid := e
		paid.Kind, paid.RefundKey, paid.Amount = payments.Paid, "", c.Amount
		if err := k.record(ctx, c.Provider, e); err != nil {
			return next, err
		}
		e = paid
	}
	switch e.Kind {
	case payments.Paid, payments.Closed:
		return time.Time{}, k.record(ctx, c.Provider, e)
	}
	if over {
		return next, errors.New("the provider says that it is paid, and then that it is not")
	}
	if next = now.Add(askEvery); next.After(c.PayBy) {
		next = c.PayBy
	}
	return next, nil
}

// find finds the outcome of a reservation that is no order: it may be lost. The buyer's
// requests do so too, but the buyer may be away.
func (k *Cashier) find(ctx context.Context, c sale.Checkout) {
	in, err := k.c.Keys.OpenReceipt(c.Receipt)
	if err == nil {
		_, err = k.c.Shop.Order(ctx, in.User, c.Receipt)
	}
	if err != nil {
		k.c.Log.Warn("reservation of a payment not found", "payment", c.ID(), "error", err)
	}
}

// refund returns money.
func (k *Cashier) refund(ctx context.Context) error {
	now := k.c.Shop.Now()
	due, err := k.c.Ledger.LeaseRefunds(ctx, k.names, now, now.Add(leaseFor), maxSettle)
	if err != nil {
		return err
	}
	each(due, func(r sale.Refund) {
		k.refundOne(ctx, &r)
		if ctx.Err() != nil {
			return
		}
		if err := k.c.Ledger.SetRefund(ctx, r, k.c.Shop.Now()); err != nil {
			k.c.Log.Warn("payments: ledger failed, will retry", "error", err)
			return
		}
		switch r.State {
		case sale.RefundDone:
			k.stats.refunded.Add(1)
			k.audit(ctx, r.Sale, fmt.Sprintf("refunded: payment %s of %d for reservation %s", r.Payment, r.Amount, r.Reservation))
		case sale.RefundFailed:
			k.stats.refundsFailed.Add(1)
			k.audit(ctx, r.Sale, fmt.Sprintf("refund failed: payment %s of %d for reservation %s: %s", r.Payment, r.Amount, r.Reservation, r.Error))
		}
	})
	return nil
}

// refundOne tries to return the money of one payment and sets the result in r.
func (k *Cashier) refundOne(ctx context.Context, r *sale.Refund) {
	name, ref, _ := strings.Cut(r.Payment, ":")
	call, cancel := context.WithTimeout(ctx, refundWithin)
	state, err := k.c.Providers[name].Refund(call, ref, r.Amount, r.Key())
	cancel()
	now := k.c.Shop.Now()
	switch {
	case err == nil && state == payments.RefundDone:
		k.c.Crash.At(crashpoint.RefundSent)
		r.State, r.Error = sale.RefundDone, ""
	case err == nil:
		r.State, r.Error, r.Due = sale.RefundSent, "", now.Add(pendingEvery)
	default:
		k.stats.errors.Add(1)
		r.Error, r.Due = err.Error(), now.Add(backoff(r.Tries))
		r.Tries++
		if r.Tries >= maxRefunds || errors.Is(err, payments.ErrRefused) {
			r.State = sale.RefundFailed
			k.c.Log.Error("refund failed", "payment", r.Payment, "amount", r.Amount, "tries", r.Tries, "error", err)
		}
	}
}
