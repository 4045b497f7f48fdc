package redisinventory

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
		flag(j.Batch != ""), escape(j.Batch), itoa(until), itoa(g.cfg.MaxTickets), itoa(sale.MaxUnpaid),
		j.Reservation, itoa(j.MaxBacklog), strconv.Itoa(j.MaxUnits), quantity(j.Quantity))
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

// Poll implements sale.Inventory.
func (g *Inventory) Poll(ctx context.Context, p sale.PollRequest) (sale.TicketStatus, error) {
	if err := p.Validate(); err != nil {
		return sale.TicketStatus{}, err
	}
	words, _, err := g.on(ctx, &g.scripts.poll, p.Sale, p.Epoch, escape(p.User), p.Reservation, itoa(p.MaxBacklog), itoa(sale.MaxUnpaid), strconv.Itoa(p.MaxUnits), quantity(p.Quantity))
	if err != nil {
		return sale.TicketStatus{}, err
	}
	return g.standing(ctx, "poll", p.Sale, p.Epoch, words)
}

// one parses a reply of one number.
func (g *Inventory) one(doing string, words []string) (int, error) {
	ns, err := numbers(words...)
	if err != nil || len(ns) != 1 {
		return 0, g.failed(doing, errReply)
	}
	return int(ns[0]), nil
}

// quantity formats the number of units of a request.
func quantity(n int) string { return strconv.Itoa(max(1, n)) }

// reasonOf parses a reason, with the number of free units behind that of FewLeft.
func reasonOf(text string) (sale.Reason, int64, error) {
	reason, left, ok := strings.Cut(text, " ")
	if !ok {
		return sale.Reason(reason), 0, nil
	}
	n, err := numbers(left)
	if err != nil {
		return "", 0, err
	}
	return sale.Reason(reason), n[0], nil
}

var places = map[string]sale.TicketState{
	"-": sale.NoTicket, "w": sale.Waiting, "a": sale.Admitted, "s": sale.Spent, "p": sale.TicketExpired,
	"g": sale.Waiting, // and absent
}

// standing parses a status: reason, state, ticket, rank, ahead, batch, until, poll, changes, ID
// and record of the last reservation, then ID and record of each reservation.
func (g *Inventory) standing(ctx context.Context, doing, id string, epoch int64, words []string) (st sale.TicketStatus, err error) {
	if len(words) == 1 && words[0] == "taken" {
		return st, fmt.Errorf("redisinventory: %s: Reservation: want an ID that no reservation has: %w", doing, sale.ErrInvalid)
	}
	if len(words) < 11 || len(words)%2 != 1 || places[words[1]] == "" {
		return st, g.failed(doing, errReply)
	}
	ns, err := numbers(words[3], words[4], words[6], words[7], words[8])
	if err != nil {
		return st, g.failed(doing, err)
	}
	if st.Reason, st.Left, err = reasonOf(words[0]); err != nil {
		return sale.TicketStatus{}, g.failed(doing, err)
	}
	st.State = places[words[1]]
	st.Absent, st.Restored, st.NewTurn, st.Poll = words[1] == "g", ns[4]&1 != 0, ns[4]&2 != 0, time.Duration(ns[3])*time.Millisecond
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
	if words[9] != "" {
		r, err := parse(words[9], id, words[10])
		if err != nil {
			return sale.TicketStatus{}, g.damaged(ctx, doing, id, epoch, err)
		}
		st.Last = &r
	}
	for i := 11; i < len(words); i += 2 {
		r, err := parse(words[i], id, words[i+1])
		if err != nil {
			return sale.TicketStatus{}, g.damaged(ctx, doing, id, epoch, err)
		}
		st.Reserved = append(st.Reserved, r)
	}
	slices.SortFunc(st.Reserved, func(a, b sale.Reservation) int { return a.Slot - b.Slot })
	return st, nil
}
