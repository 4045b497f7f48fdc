package redisinventory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// Join implements sale.Inventory.
func (g *Inventory) Join(ctx context.Context, j sale.JoinRequest) (sale.TicketStatus, error) {
	if err := j.Validate(); err != nil {
		return sale.TicketStatus{}, err
	}
	var until int64
	if j.Batch != "" {
		until = max(0, j.Until.UnixMilli())
	}
	words, _, err := g.on(ctx, &g.scripts.join, j.Sale, j.Epoch,
		escape(j.User), j.Ticket, itoa(j.Rank), itoa(j.Lot), itoa(j.Max),
		flag(j.Batch != ""), escape(j.Batch), itoa(until), itoa(g.cfg.MaxTickets), itoa(sale.MaxReservations))
	if err != nil {
		return sale.TicketStatus{}, err
	}
	return g.standing(ctx, "join", j.Sale, j.Epoch, words)
}

// Status implements sale.Inventory.
func (g *Inventory) Status(ctx context.Context, id string, epoch int64, user string) (sale.TicketStatus, error) {
	if user == "" || len(user) > 128 {
		return sale.TicketStatus{}, fmt.Errorf("redisinventory: look: user is %.140q, want 1 to 128 bytes: %w", user, sale.ErrInvalid)
	}
	words, _, err := g.on(ctx, &g.scripts.look, id, epoch, escape(user))
	if err != nil {
		return sale.TicketStatus{}, err
	}
	return g.standing(ctx, "look", id, epoch, words)
}

// Admit implements sale.Inventory.
func (g *Inventory) Admit(ctx context.Context, id string, epoch int64, batch string, n int, until time.Time) (int, error) {
	if n < 1 || n > 1000 || batch == "" || len(batch) > 64 {
		return 0, fmt.Errorf("redisinventory: admit: n is %d and batch is %.70q, want 1 to 1,000 and 1 to 64 bytes: %w", n, batch, sale.ErrInvalid)
	}
	words, _, err := g.on(ctx, &g.scripts.admit, id, epoch, escape(batch), itoa(int64(n)), itoa(until.UnixMilli()))
	if err != nil {
		return 0, err
	}
	return g.one("admit", words)
}

// one parses a reply of one number.
func (g *Inventory) one(doing string, words []string) (int, error) {
	ns, err := numbers(words...)
	if err != nil || len(ns) != 1 {
		return 0, g.failed(doing, errReply)
	}
	return int(ns[0]), nil
}

var places = map[string]sale.TicketState{
	"-": sale.NoTicket, "w": sale.Waiting, "a": sale.Admitted, "s": sale.Spent, "p": sale.TicketExpired,
}

// standing parses a status: reason, state, ticket, rank, ahead, batch, until, ID and record of
// the last reservation, then ID and record of each reserved unit.
func (g *Inventory) standing(ctx context.Context, doing, id string, epoch int64, words []string) (st sale.TicketStatus, err error) {
	if len(words) < 9 || len(words)%2 != 1 || places[words[1]] == "" {
		return st, g.failed(doing, errReply)
	}
	ns, err := numbers(words[3], words[4], words[6])
	if err != nil {
		return st, g.failed(doing, err)
	}
	st.Reason, st.State = sale.Reason(words[0]), places[words[1]]
	if st.State != sale.NoTicket {
		st.Ticket, st.Rank = words[2], ns[0]
	}
	if st.State == sale.Waiting {
		st.Ahead = ns[1]
	}
	if st.State == sale.Admitted {
		if st.Batch, err = unescape(words[5]); err != nil {
			return sale.TicketStatus{}, g.failed(doing, err)
		}
		st.Until = instant(ns[2])
	}
	if words[7] != "" {
		r, err := parse(words[7], id, words[8])
		if err != nil {
			return sale.TicketStatus{}, g.damaged(ctx, doing, id, epoch, err)
		}
		st.Last = &r
	}
	for i := 9; i < len(words); i += 2 {
		r, err := parse(words[i], id, words[i+1])
		if err != nil {
			return sale.TicketStatus{}, g.damaged(ctx, doing, id, epoch, err)
		}
		st.Reserved = append(st.Reserved, r)
	}
	slices.SortFunc(st.Reserved, func(a, b sale.Reservation) int { return a.Slot - b.Slot })
	return st, nil
}
