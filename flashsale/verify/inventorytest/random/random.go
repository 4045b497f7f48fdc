// Package random compares a sale.Inventory with a simple model by random commands.
package random

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/inventorytest"
)

// commandsPerInventory is the number of commands for one Inventory.
const commandsPerInventory = 5000

// Run sends random commands to an Inventory and to a Model, and fails at the first difference
// with a short trace. The same seed gives the same commands. The Inventory must not redeliver an
// entry within an hour of its clock and of the wall clock.
func Run(t *testing.T, open inventorytest.Open, seed uint64, commands int) {
	t.Helper()
	for i := 0; i*commandsPerInventory < commands; i++ {
		g := newGenerator(rand.New(rand.NewPCG(seed, uint64(i))))
		p := newPair(t, open)
		var trace []command
		for range min(commandsPerInventory, commands-i*commandsPerInventory) {
			c := g.next(p.model, p.clock.Now())
			trace = append(trace, c)
			if diff := p.run(c); diff != "" {
				trace = shorten(t, open, trace)
				t.Fatalf("Run(%d), inventory %d: %s\nshortest trace found:\n%s", seed, i, diff, explain(t, open, trace))
			}
			g.remember(c, p.status)
		}
	}
}

// A command is one call or one step of the clock. It does not depend on previous commands.
type command struct {
	op       string
	sale     string
	epoch    int64
	opening  sale.InitialState
	join     sale.JoinRequest
	reserve  sale.ReserveRequest
	transfer sale.Reservation
	terms    sale.Terms
	user     string
	id       string // of a reservation, a batch or a worker
	ids      []string
	n        int64
	units    int
	quantity int
	flag     bool
	at       time.Time
	step     time.Duration
}

func (c command) String() string {
	switch c.op {
	case "clock":
		return fmt.Sprintf("clock %+v", c.step)
	case "open":
		o := c.opening
		return fmt.Sprintf("open %s/%d %s stock %d per user %d headroom %d token %v %v–%v lobby %v state %q unpaid %v holds %+v before %+v", c.sale, c.epoch, o.Sale.Queue,
			o.Sale.Stock, o.Sale.PerUser, o.Sale.Headroom, o.Sale.TokenFor, o.Sale.StartsAt.Sub(inventorytest.Start()), o.Sale.EndsAt.Sub(inventorytest.Start()), o.Sale.Lobby, o.Sale.State, o.Unpaid, o.Reserved, o.Pending)
	case "join":
		j := c.join
		return fmt.Sprintf("join %s/%d %s ticket %s rank %d lot %d max %d batch %q%s reservation %q backlog %d units %d quantity %d", c.sale, c.epoch, j.User, j.Ticket, j.Rank, j.Lot, j.Max, j.Batch, until(j.Until), j.Reservation, j.MaxBacklog, j.MaxUnits, j.Quantity)
	case "reserve":
		return fmt.Sprintf("reserve %s/%d %s ticket %s key %q id %s units %d quantity %d", c.sale, c.epoch, c.reserve.User, c.reserve.Ticket, c.reserve.Key, c.reserve.Reservation, c.reserve.MaxUnits, c.reserve.Quantity)
	case "terms":
		return fmt.Sprintf("terms %s/%d %+v", c.sale, c.epoch, c.terms)
	case "transfer":
		return fmt.Sprintf("transfer to %s/%d %+v", c.sale, c.epoch, c.transfer)
	}
	return fmt.Sprintf("%s %s/%d user %q id %q ids %v n %d units %d quantity %d flag %v%s", c.op, c.sale, c.epoch, c.user, c.id, c.ids, c.n, c.units, c.quantity, c.flag, until(c.at))
}

// until formats a time relative to the start.
func until(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return fmt.Sprintf(" until %v", at.Sub(inventorytest.Start()))
}

// A pair is an Inventory and a Model that receive the same commands.
type pair struct {
	clock     *inventorytest.Clock
	inventory sale.Inventory
	model     *Model

	entries map[string]string // the Inventory's entry IDs, by reservation
	status  sale.TicketStatus // the last one
}

func newPair(t *testing.T, open inventorytest.Open) *pair {
	clock := inventorytest.NewClock()
	return &pair{
		clock: clock, inventory: open(t, clock), entries: make(map[string]string),
		model: &Model{Clock: clock, Redeliver: 1000 * time.Hour},
	}
}

// run sends a command to both and returns their difference. It omits calls whose results an
// Inventory may choose.
func (p *pair) run(c command) string {
	switch c.op {
	case "clock":
		p.clock.Move(c.step)
		return ""
	case "back":
		// Both must observe the clock before it goes back.
		defer p.clock.Move(c.step)
		count := command{op: "count", sale: c.sale, epoch: c.epoch}
		diff := p.run(count)
		p.clock.Move(-c.step)
		if diff == "" {
			diff = p.run(count)
		}
		return diff
	case "churn":
		return p.churn(c)
	case "drain":
		for {
			next := command{op: "next", sale: c.sale, epoch: c.epoch, id: "drain", n: 100}
			if diff := p.run(next); diff != "" {
				return diff
			}
			if s := p.model.sales[c.sale]; s == nil || s.Epoch != c.epoch || len(s.stream) == 0 {
				return p.run(next)
			} else {
				done := command{op: "done", sale: c.sale, epoch: c.epoch}
				for _, e := range s.stream {
					if e.Deliveries > 0 {
						done.ids = append(done.ids, e.ID)
					}
				}
				if diff := p.run(done); diff != "" {
					return diff
				}
			}
		}
	}
	want, wantErr := p.call(p.model, c, true)
	got, gotErr := p.call(p.inventory, c, false)
	if class(wantErr) == class(gotErr) && (wantErr != nil || reflect.DeepEqual(want, got)) {
		return ""
	}
	return fmt.Sprintf("%v\n got %s %v\nwant %s %v", c, show(got), gotErr, show(want), class(wantErr))
}

// churn lets a user buy and return units until a call is refused.
func (p *pair) churn(c command) string {
	for i := range c.n {
		name := func(kind string) string { return fmt.Sprintf("%s-%s-%d", c.id, kind, i) }
		join := command{op: "join", sale: c.sale, epoch: c.epoch, join: sale.JoinRequest{
			Sale: c.sale, Epoch: c.epoch, User: c.user, Ticket: name("ticket"), Batch: name("batch"), Until: c.at,
		}}
		if diff := p.run(join); diff != "" {
			return diff
		}
		reserve := command{op: "reserve", reserve: sale.ReserveRequest{Sale: c.sale, Epoch: c.epoch, User: c.user, Ticket: p.status.Ticket, Reservation: name("unit")}}
		if p.status.State != sale.Admitted {
			return ""
		}
		if diff := p.run(reserve); diff != "" {
			return diff
		}
		giveBack := command{op: "return", sale: c.sale, epoch: c.epoch, user: c.user, id: name("unit"), flag: c.flag && i%2 == 0}
		if diff := p.run(giveBack); diff != "" {
			return diff
		}
	}
	return ""
}

// call sends a command to g and returns its result with all times in UTC.
func (p *pair) call(g sale.Inventory, c command, model bool) (any, error) {
	ctx := context.Background()
	switch c.op {
	case "open":
		return nil, g.Open(ctx, c.opening)
	case "close":
		return nil, g.Close(ctx, c.sale, c.epoch)
	case "pause":
		return nil, g.SetPaused(ctx, c.sale, c.epoch, c.flag)
	case "stock":
		return nil, g.SetStock(ctx, c.sale, c.epoch, c.n)
	case "terms":
		return nil, g.SetTerms(ctx, c.sale, c.epoch, c.terms)
	case "paid":
		return nil, g.SetPaid(ctx, c.sale, c.epoch, c.n)
	case "join", "poll", "look":
		var st sale.TicketStatus
		var err error
		switch c.op {
		case "join":
			st, err = g.Join(ctx, c.join)
		case "poll":
			st, err = g.Poll(ctx, sale.PollRequest{Sale: c.sale, Epoch: c.epoch, User: c.user, Reservation: c.id, MaxBacklog: c.n, MaxUnits: c.units, Quantity: c.quantity})
		default:
			st, err = g.Status(ctx, c.sale, c.epoch, c.user)
		}
		st = inventorytest.StatusInUTC(st)
		if model {
			p.status = st
		}
		return st, err
	case "reserve":
		o, err := g.Reserve(ctx, c.reserve)
		o.Reservation = inventorytest.InUTC(o.Reservation)
		return o, err
	case "transfer":
		yes, err := g.Transfer(ctx, c.epoch, c.transfer)
		return yes, err
	case "return":
		yes, err := g.Return(ctx, c.sale, c.epoch, c.user, c.id, !c.flag)
		return yes, err
	case "count":
		n, err := g.Counts(ctx, c.sale, c.epoch)
		n.Now = n.Now.UTC()
		return n, err
	case "next":
		es, err := g.Next(ctx, c.sale, c.epoch, c.id, int(c.n), 0)
		for i := range es {
			es[i].Reservation = inventorytest.InUTC(es[i].Reservation)
			if !model {
				p.entries[es[i].Reservation.ID] = es[i].ID
			}
			es[i].ID = ""
		}
		if len(es) == 0 {
			es = nil
		}
		return es, err
	case "done":
		ids := c.ids
		if !model {
			ids = nil
			for _, id := range c.ids {
				if id = p.entries[id]; id != "" {
					ids = append(ids, id)
				}
			}
		}
		return nil, g.Ack(ctx, c.sale, c.epoch, ids...)
	case "drop":
		return nil, g.Delete(ctx, c.sale, c.epoch)
	}
	panic("random: unknown command " + c.op)
}

func show(v any) string {
	if st, ok := v.(sale.TicketStatus); ok && st.Last != nil {
		last := *st.Last
		st.Last = nil
		return fmt.Sprintf("%+v, last %+v", st, last)
	}
	return fmt.Sprintf("%+v", v)
}

// class returns the kind of an error that callers distinguish.
func class(err error) string {
	for _, of := range []error{sale.ErrStale, sale.ErrInvalid, sale.ErrConflict, sale.ErrUnavailable} {
		if errors.Is(err, of) {
			return of.Error()
		}
	}
	if err != nil {
		return "another error"
	}
	return ""
}

// shorten removes unnecessary commands from a trace, for up to 20 s.
func shorten(t *testing.T, open inventorytest.Open, trace []command) []command {
	deadline := time.Now().Add(20 * time.Second)
	fails := func(trace []command) bool {
		p := newPair(t, open)
		for _, c := range trace {
			if p.run(c) != "" {
				return true
			}
		}
		return false
	}
	for size := len(trace) / 2; size > 0; size /= 2 {
		for at := len(trace) - size - 1; at >= 0 && time.Now().Before(deadline); at -= size {
			shorter := append(append([]command(nil), trace[:at]...), trace[at+size:]...)
			if fails(shorter) {
				trace = shorter
			}
		}
	}
	return trace
}

func explain(t *testing.T, open inventorytest.Open, trace []command) string {
	var b strings.Builder
	p := newPair(t, open)
	for i, c := range trace {
		diff := p.run(c)
		if diff == "" {
			fmt.Fprintf(&b, "%3d %v\n", i, c)
		} else {
			fmt.Fprintf(&b, "%3d %s\n", i, diff)
			break
		}
	}
	return b.String()
}
