package ledger

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/floodweir/weir/flashsale/ledger/internal/coalesce"
	"github.com/floodweir/weir/flashsale/ledger/internal/database"
	provider "github.com/floodweir/weir/flashsale/payments"
	"github.com/floodweir/weir/flashsale/sale"
)

// keepUnmatched stores money of a payment that was not opened here, and applies it if the ledger
// has its reservation. A refund is stored only after its payment, because providers also report
// refunds of other systems.
func (l *checkouts) keepUnmatched(ctx context.Context, from string, a report) (got sale.EventResult, err error) {
	err = l.db.Do(ctx, database.Write, func(x *database.Tx) error {
		got = sale.EventResult{Unknown: true}
		if a.Kind != provider.Paid {
			err := x.Row("SELECT reservation FROM unmatched_payments WHERE payment = $1 AND kind = 'paid'", a.payment).Scan(&a.Receipt)
			if errors.Is(err, sql.ErrNoRows) {
				return nil
			} else if err != nil {
				return err
			}
		}
		if _, err := lockOrders(x, []string{a.Receipt}); err != nil {
			return err
		}
		n, err := x.Exec(`INSERT INTO unmatched_payments (payment, provider, kind, refund_key, event, reservation, amount, currency, at, received)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING`, a.payment, from, a.Kind.String(), database.Storable(a.RefundKey),
			database.Storable(a.ID), a.Receipt, a.Amount, database.Storable(a.Currency), millis(a.At), millis(a.now))
		if err != nil {
			return err
		}
		got.Unmatched, got.Repeated = true, n == 0
		paid, err := l.match(x, []string{a.Receipt}, a.now)
		for _, p := range paid {
			if p.payment == a.payment {
				got = sale.EventResult{Pay: p.PayResult}
			}
		}
		return err
	})
	return got, err
}

// matchable selects unmatched payments u whose reservations the ledger has: those that were opened
// here meanwhile, and those of a provider of the merchant.
const matchable = ` FROM unmatched_payments u JOIN orders o ON o.reservation = u.reservation JOIN sales s ON s.id = o.sale
	LEFT JOIN checkouts c ON c.id = u.payment WHERE u.kind = 'paid'
	AND (c.reservation = u.reservation OR c.id IS NULL AND (u.provider = s.merchant OR u.provider = '` + provider.Default + `'))`

// matched is a payment and its result.
type matched struct {
	payment string
	sale.PayResult
}

// match applies the unmatched payments of reservations, whose orders are locked, as those of
// payments that were opened here.
func (l *checkouts) match(x *database.Tx, reservations []string, now time.Time) ([]matched, error) {
	type payment struct {
		id, provider, reservation, sale, currency string
		price, payBy, received                    int64
	}
	found, err := database.List(x, func(scan func(...any) error) (p payment, err error) {
		err = scan(&p.id, &p.provider, &p.reservation, &p.sale, &p.currency, &p.price, &p.payBy, &p.received)
		return p, err
	}, "SELECT u.payment, u.provider, u.reservation, s.id, s.currency, o.price, o.pay_by, u.received"+matchable+" AND u.reservation {among:1} ORDER BY u.payment", x.Among(reservations))
	if err != nil {
		return nil, err
	}
	var all []matched
	for _, p := range found {
		_, err := x.Exec("INSERT INTO checkouts ("+checkoutColumns+") VALUES ($1, $2, $3, $4, '', 1, $5, $6, '', 'open', $7, $8, $7, 0) ON CONFLICT (id) DO NOTHING",
			p.provider, p.id, p.reservation, p.sale, max(1, p.price), p.currency, p.received, p.payBy)
		if err != nil {
			return nil, err
		}
		events, err := database.List(x, func(scan func(...any) error) (*coalesce.Request[report, sale.EventResult], error) {
			a := report{payment: p.id, now: now}
			var kind string
			var at int64
			err := errors.Join(scan(&kind, &a.RefundKey, &a.ID, &a.Amount, &a.Currency, &at), a.Kind.UnmarshalText([]byte(kind)))
			a.Receipt, a.At = p.reservation, database.TimeOf(at)
			return &coalesce.Request[report, sale.EventResult]{Arg: a}, err
		}, "SELECT kind, refund_key, event, amount, currency, at FROM unmatched_payments WHERE payment = $1 ORDER BY CASE kind WHEN 'paid' THEN 0 ELSE 1 END, received", p.id)
		if err != nil {
			return nil, err
		}
		for i, e := range events {
			out, _, err := l.recordIn(x, events[i:i+1])
			if err != nil {
				return nil, err
			}
			if e.Arg.Kind == provider.Paid && !out[0].result.Repeated {
				all = append(all, matched{p.id, out[0].result.Pay})
			}
		}
		if _, err := x.Exec("DELETE FROM unmatched_payments WHERE payment = $1", p.id); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// UnmatchedPayments implements sale.Ledger.
func (l *checkouts) UnmatchedPayments(ctx context.Context, max int) ([]provider.Unmatched, error) {
	var all []provider.Unmatched
	err := fail("unmatched payments", l.db.Do(ctx, database.ReadOne, func(x *database.Tx) (err error) {
		all, err = database.List(x, func(scan func(...any) error) (u provider.Unmatched, err error) {
			var payment, kind string
			var at, received int64
			err = errors.Join(scan(&payment, &u.Provider, &kind, &u.RefundKey, &u.ID, &u.Receipt, &u.Amount, &u.Currency, &at, &received), u.Kind.UnmarshalText([]byte(kind)))
			u.Ref, u.At, u.ReceivedAt = strings.TrimPrefix(payment, u.Provider+":"), database.TimeOf(at), database.TimeOf(received)
			return u, err
		}, "SELECT payment, provider, kind, refund_key, event, reservation, amount, currency, at, received FROM unmatched_payments ORDER BY received DESC, payment, kind LIMIT $1", bound(max))
		return err
	}))
	return all, err
}
