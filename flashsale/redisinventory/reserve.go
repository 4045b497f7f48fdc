package redisinventory

import (
	"context"
	"fmt"
	"strconv"

	"github.com/floodweir/weir/flashsale/sale"
)

// Reserve implements sale.Inventory. It is sent once. After an error it may be called again
// with the same ticket, and returns the reservation if the first call made one.
func (g *Inventory) Reserve(ctx context.Context, a sale.ReserveRequest) (sale.ReserveResult, error) {
	if err := a.Validate(); err != nil {
		return sale.ReserveResult{}, err
	}
	words, _, err := g.on(ctx, &g.scripts.reserve, a.Sale, a.Epoch, escape(a.User), a.Ticket, escape(a.Key), a.Reservation, itoa(sale.MaxUnpaid), strconv.Itoa(a.MaxUnits), quantity(a.Quantity))
	if err != nil {
		return sale.ReserveResult{}, err
	}
	if len(words) != 4 {
		return sale.ReserveResult{}, g.failed("reserve", errReply)
	}
	if words[0] == "taken" {
		return sale.ReserveResult{}, fmt.Errorf("redisinventory: reserve: ReserveRequest.Reservation is %q, want an ID that no reservation has: %w", a.Reservation, sale.ErrInvalid)
	}
	if words[0] != "" {
		reason, left, err := reasonOf(words[0])
		if err != nil {
			return sale.ReserveResult{}, g.failed("reserve", err)
		}
		return sale.ReserveResult{Reason: reason, Left: left}, nil
	}
	r, err := parse(words[2], a.Sale, words[3])
	if err != nil {
		return sale.ReserveResult{}, g.damaged(ctx, "reserve", a.Sale, a.Epoch, err)
	}
	return sale.ReserveResult{Repeated: words[1] == "1", Reservation: r}, nil
}

// Transfer implements sale.Inventory.
func (g *Inventory) Transfer(ctx context.Context, epoch int64, r sale.Reservation) (bool, error) {
	if err := r.Validate(); err != nil {
		return false, err
	}
	words, _, err := g.on(ctx, &g.scripts.transfer, r.Sale, epoch, escape(r.User), r.Ticket, escape(r.Key), r.ID,
		itoa(r.At.UnixMilli()), itoa(r.PayBy.UnixMilli()), itoa(g.cfg.MaxTickets),
		itoa(r.Epoch), strconv.Itoa(r.Slot), itoa(r.Units()))
	if err != nil {
		return false, err
	}
	n, err := g.one("transfer", words)
	return n == 1, err
}

// Return implements sale.Inventory.
func (g *Inventory) Return(ctx context.Context, id string, epoch int64, user, reservation string, unpaid bool) (bool, error) {
	words, _, err := g.on(ctx, &g.scripts.giveBack, id, epoch, escape(user), escape(reservation), flag(unpaid))
	if err != nil {
		return false, err
	}
	n, err := g.one("return", words)
	return n == 1, err
}

// SetStock implements sale.Inventory.
func (g *Inventory) SetStock(ctx context.Context, id string, epoch int64, stock int64) error {
	if stock < 0 || stock > 1<<53 {
		return fmt.Errorf("redisinventory: stock is %d, want 0 to 2^53: %w", stock, sale.ErrInvalid)
	}
	words, _, err := g.on(ctx, &g.scripts.stock, id, epoch, itoa(stock))
	if err != nil {
		return err
	}
	was, err := g.one("stock", words)
	if err == nil && stock < int64(was) {
		err = fmt.Errorf("redisinventory: stock is %d, want %d or more, which there were: %w", stock, was, sale.ErrInvalid)
	}
	return err
}

// SetTerms implements sale.Inventory.
func (g *Inventory) SetTerms(ctx context.Context, id string, epoch int64, t sale.Terms) error {
	if err := t.Validate(); err != nil {
		return fmt.Errorf("redisinventory: terms: %w", err)
	}
	_, _, err := g.on(ctx, &g.scripts.terms, id, epoch, itoa(t.Version), itoa(t.EndsAt.UnixMilli()), strconv.Itoa(t.PerUser),
		itoa(t.PayWithin.Milliseconds()), itoa(keeping.Milliseconds()))
	return err
}

// SetPaid implements sale.Inventory.
func (g *Inventory) SetPaid(ctx context.Context, id string, epoch int64, paid int64) error {
	if paid < 0 || paid > 1<<53 {
		return fmt.Errorf("redisinventory: paid is %d, want 0 to 2^53: %w", paid, sale.ErrInvalid)
	}
	_, _, err := g.on(ctx, &g.scripts.paid, id, epoch, itoa(paid))
	return err
}

// SetPaused implements sale.Inventory.
func (g *Inventory) SetPaused(ctx context.Context, id string, epoch int64, paused bool) error {
	_, _, err := g.on(ctx, &g.scripts.pause, id, epoch, flag(paused))
	return err
}

// Counts implements sale.Inventory.
func (g *Inventory) Counts(ctx context.Context, id string, epoch int64) (sale.Counts, error) {
	words, now, err := g.on(ctx, &g.scripts.count, id, epoch)
	if err != nil {
		return sale.Counts{}, err
	}
	n, err := numbers(words...)
	if err != nil || len(n) != 10 {
		return sale.Counts{}, g.failed("count", errReply)
	}
	return sale.Counts{
		Now: instant(now / 1000), Stock: n[0], Free: n[1], Waiting: n[2], Outstanding: n[3],
		Reserved: n[4], Backlog: n[5], Paused: n[6] == 1, Paid: n[7], Turns: n[8], Left: n[9],
	}, nil
}
