package flashsale_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/flashsale/redisinventory"
	"github.com/floodweir/weir/flashsale/sale"
)

// A redisLedger is a minimal ledger: it never has more orders than units, and one order per
// reservation and per user.
type redisLedger struct {
	mu       sync.Mutex
	o        sale.InitialState
	built    int64 // the last epoch that was built, open or not
	orders   map[string]sale.Reservation
	users    map[string]bool
	acked    map[string]bool // reservations that buyers received
	lost     map[string]bool
	rejected map[string]bool
}

func newRedisLedger(id string, epoch, stock int64) *redisLedger {
	return &redisLedger{o: redisOpening(id, epoch, stock), orders: map[string]sale.Reservation{},
		users: map[string]bool{}, acked: map[string]bool{}, lost: map[string]bool{}, rejected: map[string]bool{}}
}

// place creates an order of a reservation, or reports that it cannot.
func (l *redisLedger) place(r sale.Reservation) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch _, there := l.orders[r.ID]; {
	case there:
		return true
	case l.lost[r.ID] || l.users[r.User] || int64(len(l.orders)) >= l.o.Sale.Stock:
		l.rejected[r.ID] = true
		return false
	}
	l.orders[r.ID] = r
	l.users[r.User] = true
	return true
}

func (l *redisLedger) sold() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.orders))
}

// epoch returns the epoch of the last opening.
func (l *redisLedger) epoch() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.o.Sale.Epoch
}

func (l *redisLedger) reopened(epoch int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.o.Sale.Epoch = epoch
}

// opening returns the initial state of an epoch. An acknowledged reservation that is not an
// order by now is lost.
func (l *redisLedger) opening(epoch int64) sale.InitialState {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.built = epoch
	o := l.o
	o.Sale.Epoch = epoch
	for _, r := range l.orders {
		o.Reserved = append(o.Reserved, r)
	}
	for id := range l.acked {
		if _, there := l.orders[id]; !there && !l.rejected[id] {
			l.lost[id] = true
		}
	}
	return o
}

// A redisShop sells on an Inventory: buyers, an admitter, order writers and recovery.
type redisShop struct {
	t         *testing.T
	inventory *redisinventory.Inventory
	ledger    *redisLedger
	id        string

	ids        atomic.Int64
	recoveries atomic.Int64
	tryAgain   atomic.Int64 // calls that returned ErrUnavailable
	recovering sync.Mutex
	reopened   time.Time    // guarded by recovering
	writers    sync.RWMutex // a holder keeps the order writers from the stream
	goOn       func()       // lets the second half of the buyers in, once
}

// isStale reports whether an error says that the state is stale. An unexpected error fails the
// test.
func (s *redisShop) isStale(err error) (stale bool) {
	switch {
	case err == nil:
	case strings.Contains(err.Error(), "CROSSSLOT"):
		s.t.Errorf("keys in several slots: %v", err)
	case errors.Is(err, sale.ErrStale):
		return true
	case errors.Is(err, sale.ErrUnavailable):
		s.tryAgain.Add(1)
	default:
		s.t.Errorf("unexpected: %v", err)
	}
	return false
}

// recover opens the sale at the epoch after a stale one, unless another goroutine did. No call
// uses an epoch before it is open: it would look stale and be recovered again.
func (s *redisShop) recover(ctx context.Context, epoch int64) {
	s.recovering.Lock()
	defer s.recovering.Unlock()
	if s.ledger.epoch() != epoch {
		return
	}
	for next := epoch + 1; ctx.Err() == nil; {
		s.drainEpoch(ctx, next-1)
		err := s.inventory.Open(ctx, s.ledger.opening(next))
		switch {
		case err == nil:
			s.ledger.reopened(next)
			s.recoveries.Add(1)
			s.reopened = time.Now()
			return
		case errors.Is(err, sale.ErrConflict): // a server without the acknowledgements was promoted
		case errors.Is(err, sale.ErrStale): // it was open and is lost again
			next++
		default:
			s.isStale(err)
		}
		until(ctx, time.Now().Add(10*time.Millisecond))
	}
}

// drainEpoch closes an epoch and drains its stream.
func (s *redisShop) drainEpoch(ctx context.Context, epoch int64) {
	for ctx.Err() == nil && s.inventory.Close(ctx, s.id, epoch) != nil {
		until(ctx, time.Now().Add(10*time.Millisecond))
	}
	for ctx.Err() == nil && !s.writeOrders(ctx, epoch, "recovery", 0) {
		until(ctx, time.Now().Add(10*time.Millisecond))
	}
}

// backlog keeps the order writers from the stream until s.writers is unlocked, lets the second half
// of the buyers in, and waits until n more reservations are in the stream.
func (s *redisShop) backlog(n int64) {
	s.writers.Lock()
	before := int64(-1)
	redistest.Await(s.t, "reservations are in the stream", func() error {
		c, err := s.inventory.Counts(context.Background(), s.id, s.ledger.epoch())
		if err != nil {
			return err
		}
		if before < 0 {
			before = c.Backlog
			s.goOn() // the units last for them
		}
		if c.Backlog < before+n {
			return fmt.Errorf("%d in the stream, want %d", c.Backlog, before+n)
		}
		return nil
	})
}

// writeOrders creates orders of the entries in the stream, and reports whether it is drained.
func (s *redisShop) writeOrders(ctx context.Context, epoch int64, worker string, wait time.Duration) (end bool) {
	es, err := s.inventory.Next(ctx, s.id, epoch, worker, 200, wait)
	if s.isStale(err) {
		return true
	}
	var ids []string
	for _, e := range es {
		if e.Corrupt != "" {
			s.t.Errorf("entry %+v", e)
			continue
		}
		if !s.ledger.place(e.Reservation) {
			_, err := s.inventory.Return(ctx, s.id, epoch, e.Reservation.User, e.Reservation.ID, true)
			s.isStale(err)
		}
		ids = append(ids, e.ID)
	}
	if len(ids) > 0 {
		s.isStale(s.inventory.Ack(ctx, s.id, epoch, ids...))
	}
	return false
}

// buyer retries until the user has a unit or a final refusal.
func (s *redisShop) buyer(ctx context.Context, n int) {
	user := "user " + strconv.Itoa(n)
	var ticket string
	at, mine := int64(0), ""
	for ctx.Err() == nil && s.ledger.sold() < s.ledger.o.Sale.Stock {
		epoch := s.ledger.epoch()
		if epoch != at {
			at, ticket = epoch, redisID("ticket", int(s.ids.Add(1)))
		}
		if mine != "" {
			s.ledger.mu.Lock()
			lost := s.ledger.lost[mine]
			s.ledger.mu.Unlock()
			if !lost {
				until(ctx, time.Now().Add(20*time.Millisecond))
				continue
			}
			mine = ""
		}
		st, err := s.inventory.Join(ctx, sale.JoinRequest{Sale: s.id, Epoch: epoch, User: user, Ticket: ticket})
		if s.isStale(err) {
			s.recover(ctx, epoch)
			continue
		}
		if err == nil && len(st.Reserved) > 0 {
			mine = st.Reserved[0].ID // from a lost reply
			s.ack(mine, epoch)
			continue
		}
		if err == nil && st.State == sale.TicketExpired {
			ticket = redisID("ticket", int(s.ids.Add(1)))
		}
		if err == nil && st.State == sale.Admitted {
			out, err := s.inventory.Reserve(ctx, sale.ReserveRequest{Sale: s.id, Epoch: epoch, User: user, Ticket: st.Ticket, Reservation: redisID("unit", int(s.ids.Add(1)))})
			if s.isStale(err) {
				s.recover(ctx, epoch)
				continue
			}
			if err == nil && out.Reason == sale.OK {
				mine = out.Reservation.ID
				s.ack(mine, epoch)
				continue
			}
		}
		until(ctx, time.Now().Add(10*time.Millisecond))
	}
}

// ack records that a buyer received a unit of an epoch. If the next epoch is already open, the
// unit is lost unless it is an order.
func (s *redisShop) ack(id string, epoch int64) {
	l := s.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[id] = true
	if _, there := l.orders[id]; !there && !l.rejected[id] && epoch < l.built {
		l.lost[id] = true
	}
}

// redisSell runs a sale with a fault in its middle, and checks the result. It returns the number
// of lost reservations, and the time until the sale was open again.
func redisSell(t *testing.T, g *redisinventory.Inventory, id string, epoch, stock int64, fault func(*redisShop)) (lost int, reopened time.Duration, s *redisShop) {
	ctx, cancel := context.WithTimeout(context.Background(), trialWithin)
	defer cancel()
	s = &redisShop{t: t, inventory: g, ledger: newRedisLedger(id, epoch, stock), id: id}
	redistest.Await(t, "the sale is open", func() error { return g.Open(ctx, s.ledger.opening(epoch)) }) // of a short deadline
	work, stop := context.WithCancel(ctx)
	var workers, buyers sync.WaitGroup
	for i := range 2 {
		workers.Go(func() {
			for work.Err() == nil {
				epoch := s.ledger.epoch()
				s.writers.RLock()
				end := s.writeOrders(work, epoch, "writer-"+strconv.Itoa(i), 50*time.Millisecond)
				s.writers.RUnlock()
				if end && work.Err() == nil {
					s.recover(work, epoch)
				}
			}
		})
	}
	begun := make(chan struct{})
	s.goOn = sync.OnceFunc(func() { close(begun) })
	for i := range int(stock) * 3 / 2 {
		buyers.Go(func() {
			until(ctx, time.Now().Add(time.Duration(i)*time.Second/time.Duration(stock))) // the sale takes about a second
			if i >= int(stock)/2 {                                                        // units are left when the fault begins
				select {
				case <-begun:
				case <-ctx.Done():
				}
			}
			s.buyer(ctx, i)
		})
	}
	var hit time.Time
	tick := time.NewTicker(2 * time.Millisecond)
	for s.ledger.sold() < stock/3 && ctx.Err() == nil {
		<-tick.C
	}
	tick.Stop()
	hit = time.Now()
	fault(s)
	s.goOn()
	buyers.Wait()
	stop()
	workers.Wait()
	if ctx.Err() != nil {
		t.Fatalf("sold %d of %d in 60s, at epoch %d after %d recoveries", s.ledger.sold(), stock, s.ledger.epoch(), s.recoveries.Load())
	}
	// The remaining entries are delivered to one of the workers.
	for !s.drained(ctx) && ctx.Err() == nil {
		until(ctx, time.Now().Add(20*time.Millisecond))
	}
	l := s.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if int64(len(l.orders)) != stock || len(l.users) != int(stock) {
		t.Errorf("%d orders of %d users, want %d", len(l.orders), len(l.users), stock)
	}
	for id := range l.acked {
		if _, there := l.orders[id]; there == (l.lost[id] || l.rejected[id]) {
			t.Errorf("%s was acknowledged; an order: %v, lost: %v, rejected: %v", id, there, l.lost[id], l.rejected[id])
		}
	}
	if s.recoveries.Load() > 0 {
		reopened = s.reopened.Sub(hit)
		if reopened > within(15*time.Second) {
			t.Errorf("open again after %v, want at most 15s", reopened)
		}
	}
	return len(l.lost), reopened, s
}

// drained drains the stream of the last epoch.
func (s *redisShop) drained(ctx context.Context) bool {
	epoch := s.ledger.epoch()
	if s.writeOrders(ctx, epoch, "last", 0) {
		s.recover(ctx, epoch)
		return false
	}
	c, err := s.inventory.Counts(ctx, s.id, epoch)
	if s.isStale(err) {
		s.recover(ctx, epoch)
	}
	if err != nil || c.Backlog > 0 {
		return false
	}
	if want := c.Stock; c.Free+c.Reserved != want || c.Free < 0 {
		s.t.Errorf("Counts = %+v, want %d units", c, want)
	}
	return true
}

// redisTally adds up the rounds of one fault.
type redisTally struct {
	rounds, recovered, lost, rejected int
	tries                             int64
	slowest                           time.Duration
}

func (y *redisTally) add(lost int, reopened time.Duration, s *redisShop) {
	y.rounds++
	if s.recoveries.Load() > 0 {
		y.recovered++
	}
	y.lost += lost
	y.rejected += len(s.ledger.rejected)
	y.tries += s.tryAgain.Load()
	y.slowest = max(y.slowest, reopened)
}

func (y *redisTally) String() string {
	return fmt.Sprintf("%d rounds, %d with a recovery, oversold 0, lost %d, rejected %d, open again after at most %v, %d calls unavailable",
		y.rounds, y.recovered, y.lost, y.rejected, y.slowest.Round(time.Millisecond), y.tries)
}
