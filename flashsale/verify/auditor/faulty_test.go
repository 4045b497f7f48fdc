package auditor_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/auditor"
)

// A mutant is a defect of real shops, built into this one.
type mutant struct {
	name   string
	defect string
	actors actors
	want   auditor.Invariant // the invariant that the auditor must report; empty if only a suite can detect the defect
	suite  string            // "inventory" or "ledger": the suite that must fail too; empty if none can
}

// A faultyInventory is a real inventory with replaced methods.
type faultyInventory struct {
	sale.Inventory
	open       func(sale.Inventory, context.Context, sale.InitialState) error
	join       func(sale.Inventory, context.Context, sale.JoinRequest) (sale.TicketStatus, error)
	reserve    func(sale.Inventory, context.Context, sale.ReserveRequest) (sale.ReserveResult, error)
	count      func(sale.Inventory, context.Context, string, int64) (sale.Counts, error)
	next       func(sale.Inventory, context.Context, string, int64, string, int, time.Duration) ([]sale.Entry, error)
	returnUnit func(sale.Inventory, context.Context, string, int64, string, string) (bool, error)
}

func (m faultyInventory) Open(ctx context.Context, o sale.InitialState) error {
	if m.open != nil {
		return m.open(m.Inventory, ctx, o)
	}
	return m.Inventory.Open(ctx, o)
}

func (m faultyInventory) Join(ctx context.Context, j sale.JoinRequest) (sale.TicketStatus, error) {
	if m.join != nil {
		return m.join(m.Inventory, ctx, j)
	}
	return m.Inventory.Join(ctx, j)
}

func (m faultyInventory) Reserve(ctx context.Context, a sale.ReserveRequest) (sale.ReserveResult, error) {
	if m.reserve != nil {
		return m.reserve(m.Inventory, ctx, a)
	}
	return m.Inventory.Reserve(ctx, a)
}

func (m faultyInventory) Counts(ctx context.Context, id string, epoch int64) (sale.Counts, error) {
	if m.count != nil {
		return m.count(m.Inventory, ctx, id, epoch)
	}
	return m.Inventory.Counts(ctx, id, epoch)
}

func (m faultyInventory) Next(ctx context.Context, id string, epoch int64, worker string, n int, wait time.Duration) ([]sale.Entry, error) {
	if m.next != nil {
		return m.next(m.Inventory, ctx, id, epoch, worker, n, wait)
	}
	return m.Inventory.Next(ctx, id, epoch, worker, n, wait)
}

func (m faultyInventory) Return(ctx context.Context, id string, epoch int64, user, reservation string, unpaid bool) (bool, error) {
	if m.returnUnit != nil {
		return m.returnUnit(m.Inventory, ctx, id, epoch, user, reservation)
	}
	return m.Inventory.Return(ctx, id, epoch, user, reservation, unpaid)
}

// openingWith changes the initial state that an inventory is opened with.
func openingWith(change func(*sale.InitialState)) func(sale.Inventory) sale.Inventory {
	return func(g sale.Inventory) sale.Inventory {
		return faultyInventory{Inventory: g, open: func(g sale.Inventory, ctx context.Context, o sale.InitialState) error {
			change(&o)
			return g.Open(ctx, o)
		}}
	}
}

// leaking loses a unit whenever lose or early reports so for a result of Reserve or Join.
func leaking(lose func(sale.ReserveResult) bool, early func(sale.TicketStatus) bool) func(sale.Inventory) sale.Inventory {
	return func(g sale.Inventory) sale.Inventory {
		var lost atomic.Int64
		m := faultyInventory{Inventory: g}
		m.reserve = func(g sale.Inventory, ctx context.Context, a sale.ReserveRequest) (sale.ReserveResult, error) {
			if c, err := m.count(g, ctx, a.Sale, a.Epoch); err == nil && c.Free <= 0 {
				return sale.ReserveResult{Reason: sale.IsAllTaken}, nil
			}
			o, err := g.Reserve(ctx, a)
			if err == nil && lose != nil && lose(o) {
				lost.Add(1)
			}
			return o, err
		}
		m.join = func(g sale.Inventory, ctx context.Context, j sale.JoinRequest) (sale.TicketStatus, error) {
			s, err := g.Join(ctx, j)
			if err == nil && early != nil && early(s) {
				lost.Add(1)
			}
			return s, err
		}
		m.count = func(g sale.Inventory, ctx context.Context, id string, epoch int64) (sale.Counts, error) {
			c, err := g.Counts(ctx, id, epoch)
			c.Free -= lost.Load()
			return c, err
		}
		return m
	}
}

type faultyLedger struct {
	sale.Ledger
	place      func(context.Context, int64, []sale.Reservation, time.Time) ([]sale.OrderResult, error)
	pay        func(context.Context, sale.Payment, time.Time) (sale.PayResult, error)
	expire     func(context.Context, time.Time, int) ([]sale.Order, error)
	unreturned func(context.Context, int) ([]sale.Order, error)
}

func (m faultyLedger) CreateOrders(ctx context.Context, epoch int64, rs []sale.Reservation, now time.Time) ([]sale.OrderResult, error) {
	if m.place != nil {
		return m.place(ctx, epoch, rs, now)
	}
	return m.Ledger.CreateOrders(ctx, epoch, rs, now)
}

func (m faultyLedger) Pay(ctx context.Context, p sale.Payment, now time.Time) (sale.PayResult, error) {
	if m.pay != nil {
		return m.pay(ctx, p, now)
	}
	return m.Ledger.Pay(ctx, p, now)
}

func (m faultyLedger) Expire(ctx context.Context, now time.Time, n int) ([]sale.Order, error) {
	if m.expire != nil {
		return m.expire(ctx, now, n)
	}
	return m.Ledger.Expire(ctx, now, n)
}

func (m faultyLedger) Unreturned(ctx context.Context, n int) ([]sale.Order, error) {
	if m.unreturned != nil {
		return m.unreturned(ctx, n)
	}
	return m.Ledger.Unreturned(ctx, n)
}

// afterPlacing calls after for each new order, and for each reservation without a unit.
func afterPlacing(after func(execSQL, sale.Reservation, *sale.OrderResult)) func(sale.Ledger, execSQL) sale.Ledger {
	return func(l sale.Ledger, db execSQL) sale.Ledger {
		return faultyLedger{Ledger: l, place: func(ctx context.Context, epoch int64, rs []sale.Reservation, now time.Time) ([]sale.OrderResult, error) {
			done, err := l.CreateOrders(ctx, epoch, rs, now)
			for i := range done {
				if done[i].New || done[i].State == sale.Reserved && !done[i].Fenced {
					after(db, rs[i], &done[i])
				}
			}
			return done, err
		}}
	}
}

// placeRejected makes an order of a reservation that is rejected or has no unit, as
// "sold = sold + 1" without a guard does.
func placeRejected(db execSQL, r sale.Reservation, p *sale.OrderResult) {
	if p.State != sale.Rejected && p.State != sale.Reserved {
		return
	}
	db(`DROP INDEX IF EXISTS orders_slot`)
	db(`INSERT OR IGNORE INTO orders (reservation, sale, epoch, usr, slot, ticket, key, at, pay_by, state, price, placed, changed, spent)
		SELECT ?, id, ?, ?, ?, ?, ?, ?, ?, 'rejected', price, ?, ?, 0 FROM sales WHERE id = ?`, r.ID, r.Epoch, r.User, r.Slot, r.Ticket, r.Key,
		r.At.UnixMilli(), r.PayBy.UnixMilli(), r.At.UnixMilli(), r.At.UnixMilli(), r.Sale)
	db(`UPDATE orders SET state = 'pending_pay', held = slot, spent = 1, note = '' WHERE reservation = ?`, r.ID)
	db(`UPDATE sales SET sold = sold + 1 WHERE id = ?`, r.Sale)
	db(`INSERT INTO movements (sale, kind, units, reservation, at) VALUES (?, 'sold', -1, ?, ?)`, r.Sale, r.ID, r.At.UnixMilli())
	p.State = sale.PendingPay
}

// everyNth calls f for each nth order.
func everyNth(n int64, f func(execSQL, sale.Reservation, *sale.OrderResult)) func(execSQL, sale.Reservation, *sale.OrderResult) {
	var seen atomic.Int64
	return func(db execSQL, r sale.Reservation, p *sale.OrderResult) {
		if seen.Add(1)%n == 0 {
			f(db, r, p)
		}
	}
}

type faultyService struct {
	sale.BuyerService
	status func(context.Context, string, string, string) (sale.QueueStatus, error)
	buy    func(context.Context, string, string, string, string) (sale.BuyResult, error)
}

func (m faultyService) Status(ctx context.Context, user, id, place string) (sale.QueueStatus, error) {
	if m.status != nil {
		return m.status(ctx, user, id, place)
	}
	return m.BuyerService.Status(ctx, user, id, place)
}

func (m faultyService) Buy(ctx context.Context, user, id, token, key string) (sale.BuyResult, error) {
	if m.buy != nil {
		return m.buy(ctx, user, id, token, key)
	}
	return m.BuyerService.Buy(ctx, user, id, token, key)
}

// bearerToken lets any user buy with any token: it stores the owner of each token and calls the
// shop as that user.
func bearerToken(d sale.BuyerService) sale.BuyerService {
	var owners sync.Map
	return faultyService{BuyerService: d,
		status: func(ctx context.Context, user, id, place string) (sale.QueueStatus, error) {
			t, err := d.Status(ctx, user, id, place)
			if t.Token != "" {
				owners.Store(t.Token, user)
			}
			return t, err
		},
		buy: func(ctx context.Context, user, id, token, key string) (sale.BuyResult, error) {
			if owner, ok := owners.Load(token); ok {
				user = owner.(string)
			}
			return d.Buy(ctx, user, id, token, key)
		}}
}

// sharedToken gives all users the same token and accepts it from all of them.
func sharedToken(d sale.BuyerService) sale.BuyerService {
	var tokens sync.Map
	return faultyService{BuyerService: d,
		status: func(ctx context.Context, user, id, place string) (sale.QueueStatus, error) {
			t, err := d.Status(ctx, user, id, place)
			if t.Token != "" {
				tokens.Store(user, t.Token)
				t.Token = "md5-of-the-sale-and-a-salt"
			}
			return t, err
		},
		buy: func(ctx context.Context, user, id, token, key string) (sale.BuyResult, error) {
			if t, ok := tokens.Load(user); ok && strings.HasPrefix(token, "md5") {
				token = t.(string)
			}
			return d.Buy(ctx, user, id, token, key)
		}}
}

// reusableTicket reserves again with a ticket that was used.
func reusableTicket(g sale.Inventory) sale.Inventory {
	return faultyInventory{Inventory: g,
		open: func(g sale.Inventory, ctx context.Context, o sale.InitialState) error {
			o.Sale.PerUser = 10
			return g.Open(ctx, o)
		},
		reserve: func(g sale.Inventory, ctx context.Context, a sale.ReserveRequest) (sale.ReserveResult, error) {
			o, err := g.Reserve(ctx, a)
			if err != nil || !o.Repeated || a.Key != "" {
				return o, err
			}
			until := time.Now().Add(time.Minute)
			if s, err := g.Join(ctx, sale.JoinRequest{Sale: a.Sale, Epoch: a.Epoch, User: a.User, Ticket: a.Reservation + "-again", Batch: "again", Until: until}); err == nil {
				a.Ticket = s.Ticket
				if more, err := g.Reserve(ctx, a); err == nil && more.Reason == sale.OK {
					return more, nil
				}
			}
			return o, nil
		}}
}

// failForAll returns the first refusal to all users.
func failForAll(g sale.Inventory) sale.Inventory {
	var failed sync.Map
	return faultyInventory{Inventory: g, reserve: func(g sale.Inventory, ctx context.Context, a sale.ReserveRequest) (sale.ReserveResult, error) {
		if _, ok := failed.Load(a.Sale); ok {
			return sale.ReserveResult{Reason: sale.IsAllTaken}, nil
		}
		o, err := g.Reserve(ctx, a)
		if err == nil && o.Reason != sale.OK {
			failed.Store(a.Sale, true)
		}
		return o, err
	}}
}

// lastFirst gives later tickets better ranks. A join pauses the inventory until the shop resumes
// it, so that all users wait at first and ranks matter.
func lastFirst(g sale.Inventory) sale.Inventory {
	var mu sync.Mutex
	next := int64(1 << 52)
	return faultyInventory{Inventory: g, join: func(g sale.Inventory, ctx context.Context, j sale.JoinRequest) (sale.TicketStatus, error) {
		mu.Lock()
		defer mu.Unlock()
		next--
		j.Rank = next
		if err := g.SetPaused(ctx, j.Sale, j.Epoch, true); err != nil {
			return sale.TicketStatus{}, err
		}
		return g.Join(ctx, j)
	}}
}

// admitAll admits ten million users per unit, and is slow to reserve, so that many are admitted
// before the first unit is reserved.
func admitAll(g sale.Inventory) sale.Inventory {
	return faultyInventory{Inventory: g,
		open: func(g sale.Inventory, ctx context.Context, o sale.InitialState) error {
			o.Sale.Headroom = 10_000_000
			return g.Open(ctx, o)
		},
		reserve: func(g sale.Inventory, ctx context.Context, a sale.ReserveRequest) (sale.ReserveResult, error) {
			wait(ctx, 300*time.Millisecond)
			return g.Reserve(ctx, a)
		}}
}

// tokenForAll issues a token with each ticket, whatever the stock.
func tokenForAll(g sale.Inventory) sale.Inventory {
	return faultyInventory{Inventory: g, join: func(g sale.Inventory, ctx context.Context, j sale.JoinRequest) (sale.TicketStatus, error) {
		if j.Batch == "" {
			j.Batch, j.Until = "giveaway", time.Now().Add(2*time.Second).Truncate(time.Millisecond)
		}
		return g.Join(ctx, j)
	}}
}

// lostEntries loses every third entry between the reservation and the stream.
func lostEntries(g sale.Inventory) sale.Inventory {
	var mu sync.Mutex
	seen := map[string]bool{}
	return faultyInventory{Inventory: g, next: func(g sale.Inventory, ctx context.Context, id string, epoch int64, worker string, n int, wait time.Duration) ([]sale.Entry, error) {
		es, err := g.Next(ctx, id, epoch, worker, n, wait)
		var kept []sale.Entry
		for _, e := range es {
			mu.Lock()
			_, known := seen[e.Reservation.ID]
			if !known {
				seen[e.Reservation.ID] = len(seen)%3 == 0
			}
			lost := seen[e.Reservation.ID]
			mu.Unlock()
			if !lost {
				kept = append(kept, e)
			} else if err := g.Ack(ctx, id, epoch, e.ID); err != nil {
				return kept, err
			}
		}
		return kept, err
	}}
}
