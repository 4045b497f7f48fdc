package random

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// A generator generates random commands. It reads the Model, so that many commands refer to
// existing state.
type generator struct {
	r       *rand.Rand
	sales   []string
	epochs  map[string]int64 // the last epoch that a sale was opened with
	last    map[string]sale.InitialState
	earlier map[string][]sale.Reservation // of the epoch before the last
	ranks   map[string]int64              // the last rank of a user, by sale and user
	tickets []string
	n       int
}

func newGenerator(r *rand.Rand) *generator {
	return &generator{
		r: r, sales: []string{"one", "two", "three"}, epochs: make(map[string]int64),
		last: make(map[string]sale.InitialState), earlier: make(map[string][]sale.Reservation), ranks: make(map[string]int64),
	}
}

// remember stores the results that later commands use.
func (g *generator) remember(c command, st sale.TicketStatus) {
	if c.op == "join" && st.Rank > 0 {
		g.ranks[c.sale+c.join.User] = st.Rank
		g.tickets = append(g.tickets, st.Ticket)
		if len(g.tickets) > 200 {
			g.tickets = g.tickets[100:]
		}
	}
}

func (g *generator) chance(percent int) bool { return g.r.IntN(100) < percent }

func (g *generator) id(kind string) string {
	g.n++
	return fmt.Sprintf("%s-%012d", kind, g.n)
}

func pick[T any](g *generator, of ...T) T { return of[g.r.IntN(len(of))] }

func (g *generator) user() string { return fmt.Sprintf("user-%d", g.r.IntN(12)) }

// next returns a command.
func (g *generator) next(m *Model, now time.Time) command {
	id := pick(g, g.sales...)
	c := command{sale: id, epoch: g.epochs[id]}
	if g.chance(2) {
		c.epoch += pick[int64](g, -1, 1)
	}
	s := m.sales[id]
	if s == nil || s.closed && len(s.stream) == 0 && g.chance(50) {
		return g.open(c, s, now)
	}
	if s.closed && g.chance(30) {
		c.op = "drain"
		return c
	}
	switch n := g.r.IntN(1000); {
	case n < 250:
		return g.join(c, s, now)
	case n < 330:
		c.op, c.user = "look", g.user()
	case n < 470:
		c.op, c.user, c.n, c.units, c.quantity = "poll", g.user(), g.backlog(), g.units(), g.quantity()
		if g.chance(40) {
			c.id = g.id("reservation")
		}
		if g.chance(1) {
			c.id = "short"
		}
	case n < 720:
		return g.reserve(c, s)
	case n < 790:
		c.op, c.user, c.id, c.flag = "return", g.user(), g.id("unknown"), g.chance(30)
		if len(s.reservations) > 0 && g.chance(90) {
			h := pick(g, s.reservations...)
			c.id = h.ID
			if g.chance(90) {
				c.user = h.User
			}
		}
	case n < 810 && len(g.earlier[c.sale]) > 0:
		c.op, c.transfer = "transfer", pick(g, g.earlier[c.sale]...)
	case n < 830:
		c.op = "count"
		if g.chance(40) {
			c.op, c.user, c.id, c.n = "churn", g.user(), g.id("churn"), 1+g.r.Int64N(2*sale.MaxUnpaid)
			c.at, c.flag = now.Add(time.Minute), g.chance(30)
		}
	case n < 890:
		c.op, c.id, c.n = "next", pick(g, "ann", "bob", "c.d_e-f"), int64(1+g.r.IntN(5))
		if g.chance(3) {
			c.id, c.n = pick(g, "ann", "", "a b"), pick[int64](g, 0, 1001, 1)
		}
	case n < 930:
		c.op = "done"
		for _, e := range s.stream {
			if e.Deliveries > 0 && g.chance(60) {
				c.ids = append(c.ids, e.ID)
			}
		}
	case n < 960:
		return g.time(c, s, m, now)
	case n < 962:
		c.op = "terms"
		c.terms = sale.Terms{Version: max(0, s.Version+g.r.Int64N(3)-1), EndsAt: now.Add(time.Duration(g.r.IntN(7200)) * time.Second).Truncate(time.Millisecond),
			PerUser: min(10, s.PerUser+g.r.IntN(2)), PayWithin: time.Duration(1+g.r.IntN(1200)) * time.Second}
	case n < 970:
		c.op, c.flag = "pause", g.chance(40)
	case n < 980:
		c.op, c.n = "stock", s.Stock+int64(g.r.IntN(4))-1
	case n < 982:
		c.op, c.n = "paid", int64(g.r.IntN(8))-1
	case n < 984:
		c.op = "close"
	case n < 987:
		c.op = "drop"
	default:
		if g.chance(70) {
			c.op = "count"
			return c
		}
		return g.open(c, s, now)
	}
	return c
}

// backlog returns a bound on the stream, mostly none.
func (g *generator) backlog() int64 {
	if g.chance(80) {
		return 0
	}
	return g.r.Int64N(6) - 1
}

// units returns how many units a user may hold, mostly any number.
func (g *generator) units() int {
	if g.chance(80) {
		return 0
	}
	return g.r.IntN(4) - 1
}

// quantity returns how many units to reserve, mostly one.
func (g *generator) quantity() int {
	if g.chance(60) {
		return g.r.IntN(2)
	}
	return g.r.IntN(5) - g.r.IntN(2)*g.r.IntN(2)
}

// soon returns a time around now, mostly in the future.
func (g *generator) soon(now time.Time) time.Time {
	return now.Add(time.Duration(g.r.IntN(20_000_000)-1_000_000) * time.Microsecond)
}

func (g *generator) join(c command, s *modelSale, now time.Time) command {
	c.op = "join"
	c.join = sale.JoinRequest{Sale: c.sale, Epoch: c.epoch, User: g.user(), Ticket: g.id("ticket")}
	if g.chance(30) {
		c.join.Rank = g.ranks[c.sale+c.join.User]
	}
	if g.chance(5) {
		c.join.Rank = g.ranks[c.sale+g.user()]
	}
	if s.Queue == sale.Shuffled || g.chance(5) {
		c.join.Lot = 1 + g.r.Int64N(pick[int64](g, 6, sale.MaxLot))
	}
	if g.chance(30) {
		c.join.Max = 1 + g.r.Int64N(8)
	}
	if s.Queue == sale.Direct || g.chance(3) {
		c.join.Batch, c.join.Until = g.id("batch"), g.soon(now)
	}
	if g.chance(30) {
		c.join.Reservation = g.id("reservation")
	}
	c.join.MaxBacklog, c.join.MaxUnits, c.join.Quantity = max(0, g.backlog()), g.units(), g.quantity()
	if t := s.ticket(c.join.User); t != nil && g.chance(5) {
		c.join.Ticket = t.id
	}
	if g.chance(1) {
		c.join.Ticket = pick(g, "", "short", "0123456789 12345")
	}
	return c
}

func (g *generator) reserve(c command, s *modelSale) command {
	c.op = "reserve"
	c.reserve = sale.ReserveRequest{Sale: c.sale, Epoch: c.epoch, User: g.user(), Ticket: g.id("ticket"), Reservation: g.id("reservation"), MaxUnits: g.units(), Quantity: g.quantity()}
	var can []*modelTicket
	for _, t := range s.tickets {
		if t.state == sale.Admitted {
			can = append(can, t)
		}
	}
	switch n := g.r.IntN(100); {
	case n < 60 && len(can) > 0:
		t := pick(g, can...)
		c.reserve.User, c.reserve.Ticket = t.user, t.id
	case n < 75 && len(s.tickets) > 0:
		t := pick(g, s.tickets...)
		c.reserve.User, c.reserve.Ticket = t.user, t.id
	case n < 85 && len(s.reservations) > 0:
		h := pick(g, s.reservations...)
		c.reserve.User, c.reserve.Ticket = h.User, h.Ticket
	case n < 95 && len(g.tickets) > 0:
		c.reserve.Ticket = pick(g, g.tickets...)
	}
	if g.chance(40) {
		c.reserve.Key = pick(g, "a", "b", "c", "d e", "e")
	}
	if g.chance(1) {
		c.reserve.Reservation = pick(g, "", "x", "0123456789_12345")
	}
	return c
}

// time moves the clock a little, or to a time at which something starts or ends.
func (g *generator) time(c command, s *modelSale, m *Model, now time.Time) command {
	if g.chance(20) && s.Epoch == c.epoch && !s.closed {
		c.op, c.step = "back", time.Duration(g.r.IntN(90_000))*time.Millisecond
		return c
	}
	c.op, c.step = "clock", time.Duration(g.r.IntN(3_000_000))*time.Microsecond
	if g.chance(3) {
		c.step = sale.ReclaimFor
	} else if g.chance(50) {
		marks := []time.Time{s.StartsAt, s.EndsAt, s.StartsAt.Add(-s.Lobby)}
		for _, t := range s.tickets {
			if t.state == sale.Admitted {
				marks = append(marks, t.until, t.until)
			}
			if !t.seen.IsZero() {
				marks = append(marks, t.seen, t.seen, t.seen.Add(sale.ReclaimFor))
			}
		}
		at := pick(g, marks...).Add(pick(g, -time.Millisecond, -time.Microsecond, 0, 0, time.Microsecond, time.Millisecond))
		if d := at.Sub(now); d > 0 && d < 11*time.Minute {
			c.step = d
		}
	}
	return c
}

// open opens a sale at its next epoch with the reservations of the previous one, or repeats the
// last open.
func (g *generator) open(c command, s *modelSale, now time.Time) command {
	c.op = "open"
	if s != nil && !s.closed && g.chance(60) {
		if o, ok := g.last[c.sale]; ok {
			c.opening, c.epoch = o, o.Sale.Epoch
			if g.chance(30) {
				c.opening.Sale.Epoch--
				c.epoch--
			}
			return c
		}
	}
	g.epochs[c.sale]++
	c.epoch = g.epochs[c.sale]
	starts := now.Add(time.Duration(g.r.IntN(8000)-6000) * time.Millisecond).Truncate(time.Millisecond)
	o := sale.InitialState{Sale: sale.Sale{ID: c.sale, Epoch: c.epoch, State: sale.Exposed, Draft: sale.Draft{
		Stock: int64(g.r.IntN(9)), Headroom: g.r.IntN(3), PerUser: 1 + g.r.IntN(4), Queue: pick(g, sale.Fifo, sale.Fifo, sale.Shuffled, sale.Direct),
		StartsAt: starts, EndsAt: starts.Add(time.Duration(1+g.r.IntN(pick(g, 120_000, 1_200_000))) * time.Millisecond),
		Lobby: time.Duration(g.r.IntN(4000)) * time.Millisecond, PayWithin: time.Minute, TokenFor: time.Duration(1+g.r.IntN(10)) * time.Second,
	}}}
	if g.chance(5) {
		o.Sale.State = sale.Paused
	}
	if g.chance(20) {
		o.Unpaid = map[string]int{g.user(): 1 + g.r.IntN(5)}
	}
	if s != nil {
		g.earlier[c.sale] = nil
		units := map[string]int64{}
		for _, h := range s.reservations {
			g.earlier[c.sale] = append(g.earlier[c.sale], h.Reservation)
			n := g.r.IntN(10)
			if h.returned || h.Slot > o.Sale.PerUser || o.Units()+h.Units() > o.Sale.Stock && n < 9 ||
				units[h.User]+h.Units() > int64(o.Sale.PerUser) && n < 9 {
				continue
			}
			switch units[h.User] += h.Units(); {
			case n < 3:
				o.Pending = append(o.Pending, h.Reservation)
			case n < 9:
				o.Reserved = append(o.Reserved, h.Reservation)
			}
		}
	}
	g.last[c.sale] = o
	c.opening = o
	return c
}
