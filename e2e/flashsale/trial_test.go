package flashsale_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/flashsale/child"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/auditor"
	"github.com/floodweir/weir/flashsale/verify/calllog"
	"github.com/redis/rueidis"
)

// A trial is one sale of several processes with a fault in its middle. Customers arrive over
// time at all processes, and switch to another process when theirs does not respond. The auditor
// watches, and checks at the end.
type trial struct {
	t         *testing.T
	config    run.Config
	redis     rueidis.Client // of the auditor; nil in the embedded mode
	units     int64
	arrival   time.Duration  // customers arrive within this time after the start
	customers int            // number of customers
	pay       time.Duration  // time to pay
	failed    bool           // an inventory may have lost acknowledged writes
	killed    bool           // the merchant ends the sale, whatever the demand
	late      int            // number of customers that arrive only after the fault has begun
	holds     []*heldPayment // of the first customers, who pay

	sale  string
	start time.Time
	begun chan struct{} // closed when the fault has begun
	log   *calllog.Log
	seen  bytes.Buffer
	cut   atomic.Int64 // responses that broke off

	mu    sync.Mutex
	shops []*shopProcess // running processes
}

// newTrial returns a trial with default times and three times as many customers as units.
func newTrial(t *testing.T, c run.Config, redis string) *trial {
	c.Shop, c.Office = "127.0.0.1:0", "127.0.0.1:0"
	c.TrustedProxies = []string{"127.0.0.1"}
	if c.Layers == "" {
		c.Layers = lenientLayersFile(t)
	}
	y := &trial{t: t, config: c, units: 100, customers: 150, arrival: 3 * time.Second, pay: 2 * time.Second, begun: make(chan struct{})}
	if redis != "" {
		y.redis = redisClient(t, redis)
	}
	y.log = calllog.NewLog(&y.seen)
	return y
}

func (y *trial) draft() sale.Draft {
	y.start = time.Now().Add(700 * time.Millisecond).Truncate(time.Millisecond)
	return sale.Draft{SKU: "trial", Title: "trial", Price: 100, Stock: y.units, PerUser: 3, MaxQuantity: 3, StartsAt: y.start,
		EndsAt: y.start.Add(time.Hour), Queue: sale.Fifo, PayWithin: y.pay, TokenFor: time.Second}
}

// serve starts another process. The first process of a trial creates the sale. A process that is
// not ready within a minute is an error.
func (y *trial) serve(ahead time.Duration) *shopProcess {
	return y.serveOrder(child.Order{Config: y.config, Ahead: ahead})
}

func (y *trial) serveOrder(o child.Order) *shopProcess {
	if y.sale == "" {
		d := y.draft()
		o.Create = &d
	}
	c, err := startChild(y.t, o)
	if err != nil {
		y.t.Fatal(err)
	}
	if c.Sale != "" {
		y.sale = c.Sale
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	y.shops = append(y.shops, c)
	return c
}

// remove takes a process out of the ones that customers use.
func (y *trial) remove(c *shopProcess) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.shops = slices.DeleteFunc(y.shops, func(s *shopProcess) bool { return s == c })
}

// shop returns one of the running processes.
func (y *trial) shop(i int) *shopProcess {
	y.mu.Lock()
	defer y.mu.Unlock()
	if len(y.shops) == 0 {
		return nil
	}
	return y.shops[i%len(y.shops)]
}

// all returns the running processes.
func (y *trial) all() []*shopProcess {
	y.mu.Lock()
	defer y.mu.Unlock()
	return slices.Clone(y.shops)
}

// endOf returns how a customer ends its order. One of eight cancels, and one lets it expire if
// that is soon.
func (y *trial) endOf(i int) end {
	switch {
	case i%8 == 3:
		return cancels
	case i%8 == 6 && y.pay <= 2*time.Second:
		return expires
	}
	return pays
}

// customer runs one customer to its end. A customer whose reservation is lost continues as
// another one.
func (y *trial) customer(ctx context.Context, i int) (string, error) {
	var base atomic.Pointer[string]
	nowhere := "http://127.0.0.1:1" // while no process serves
	base.Store(&nowhere)
	at := i
	move := func() {
		if s := y.shop(at); s != nil {
			base.Store(&s.Shop)
		}
		at++
	}
	move()
	for {
		c := &customer{Base: &base, Sale: y.sale, Ends: y.endOf(i), Quantity: []int{1, 1, 2, 1, 1, 3}[i%6], Log: y.log, From: fmt.Sprintf("198.51.%d.%d", i/250, i%250+1),
			Unavailable: func(err error) {
				if errors.Is(err, io.ErrUnexpectedEOF) {
					y.cut.Add(1)
				}
				move()
			}}
		if i < len(y.holds) {
			c.Held = y.holds[i]
		}
		state, err := c.shop(ctx)
		if err != nil || state != "lost" && state != "rejected" {
			return state, err
		}
	}
}

// trialWithin bounds a trial, whose customers make thousands of calls. It takes 10 s on an idle
// machine.
const trialWithin = 5 * time.Minute

// A trialResult holds what a trial measured.
type trialResult struct {
	ends                []string
	seen                []calllog.Call
	tally               sale.OrderTotals
	acknowledged        int           // reservations whose receipt a customer received
	withdrawn           int           // of acknowledged: lost or rejected
	reported            int           // of withdrawn: the customer received that
	reportedAfter       time.Duration // the longest time until a customer received that; an hour if one did not
	unsold              int64         // free units at the end, if a customer left without one that it wanted
	checks              int64
	unpaid, unavailable int // calls to pay, and all calls, with status 503
}

// run starts the customers, calls fault a second after the start of the sale, and waits until
// every customer has a final response.
func (y *trial) run(fault func(ctx context.Context)) *trialResult {
	t := y.t
	ctx, cancel := context.WithTimeout(context.Background(), trialWithin)
	defer cancel()
	watch, err := auditor.Open(ctx, y.auditor())
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	watching, stop := context.WithCancel(ctx)
	var beside, customers sync.WaitGroup
	beside.Go(func() { watch.Watch(watching) })
	v := &trialResult{ends: make([]string, y.customers)}
	for i := range v.ends {
		customers.Go(func() {
			if i >= len(v.ends)-y.late {
				select {
				case <-y.begun:
				case <-ctx.Done():
				}
			}
			if !until(ctx, y.start.Add(time.Duration(i)*y.arrival/time.Duration(y.customers)-50*time.Millisecond)) {
				return
			}
			var err error
			if v.ends[i], err = y.customer(ctx, i); err != nil {
				t.Errorf("customer %d: %v", i, err)
			}
		})
	}
	until(ctx, y.start.Add(700*time.Millisecond))
	fault(ctx)
	customers.Wait()
	stop()
	beside.Wait()
	if r := watch.Report(); r.Violations() > 0 {
		t.Errorf("violations during the sale:\n%s", table(r))
	}
	v.checks = watch.Report().Checks()
	y.check(ctx, v)
	return v
}

// awaitPayment waits for the first payment.
func (y *trial) awaitPayment() {
	y.t.Helper()
	l, err := run.OpenLedger(y.t.Context(), y.config)
	if err != nil {
		y.t.Fatal(err)
	}
	defer l.Close()
	redistest.Await(y.t, "a payment", func() error {
		n, err := l.Totals(y.t.Context(), y.sale)
		if err == nil && n.Paid == 0 {
			err = fmt.Errorf("no payment: %+v", n)
		}
		return err
	})
}

func (y *trial) auditor() auditor.Config {
	return auditor.Config{Database: database(y.config), Redis: y.redis, Sales: []string{y.sale}}
}

// check runs the auditor, and compares the responses with the ledger.
func (y *trial) check(ctx context.Context, v *trialResult) {
	t := y.t
	if err := y.log.Flush(); err != nil {
		t.Fatal(err)
	}
	var err error
	if v.seen, err = calllog.Read(bytes.NewReader(y.seen.Bytes())); err != nil {
		t.Fatal(err)
	}
	wanted := int64(0)
	for i := range v.ends {
		if y.endOf(i) == pays && !y.killed {
			wanted++
		}
	}
	a := openAuditor(t, y.auditor())
	if ctx.Err() != nil {
		t.Fatalf("not finished after %v:\n%s", trialWithin, summary(v.seen))
	}
	report, err := a.Final(ctx, auditor.Facts{Observations: v.seen, Settled: true, Failed: y.failed, Demand: map[string]int64{y.sale: wanted},
		Reconcile: func(ctx context.Context, id string) (int, error) {
			l, err := y.shop(0).Do("reconcile " + id)
			return l.Changed, err
		}})
	if err != nil {
		t.Fatal(err)
	}
	v.checks += report.Checks()
	if report.Violations() > 0 || len(report.Errors) > 0 {
		t.Errorf("%s%s", table(report), summary(v.seen))
	}
	if y.cut.Load() > 0 {
		t.Errorf("%d responses broke off", y.cut.Load())
	}
	v.count(y)
}

// count reads the totals of the ledger and the states that customers received.
func (v *trialResult) count(y *trial) {
	t := y.t
	l, err := run.OpenLedger(t.Context(), y.config)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if v.tally, err = l.Totals(t.Context(), y.sale); err != nil {
		t.Fatal(err)
	}
	for i, end := range v.ends {
		if y.endOf(i) == pays && end != string(sale.Paid) && !y.killed {
			v.unsold = v.tally.Movements
		}
	}
	noticed := map[string]time.Time{} // when a customer first received that a reservation is withdrawn
	receipts := map[string]bool{}
	for _, o := range v.seen {
		if o.Status == http.StatusServiceUnavailable {
			v.unavailable++
			if o.Action == calllog.Pay {
				v.unpaid++
			}
		}
		if o.Receipt == "" {
			continue
		}
		id := calllog.ReservationOf(o.Receipt)
		receipts[id] = true
		if at, ok := noticed[id]; (o.State == "lost" || o.State == "rejected") && (!ok || o.At.Before(at)) {
			noticed[id] = o.At
		}
	}
	v.acknowledged = len(receipts)
	if n := v.tally.Lost + v.tally.Rejected; int64(len(noticed)) > n {
		t.Errorf("%d customers received a lost or rejected reservation, the ledger has %d", len(noticed), n)
	}
	if err := l.EachOrder(t.Context(), y.sale, func(o sale.Order) error {
		if o.State != sale.Lost && o.State != sale.Rejected || !receipts[o.ID] {
			return nil
		}
		v.withdrawn++
		after := time.Hour // never
		if at, ok := noticed[o.ID]; ok {
			v.reported++
			after = at.Sub(o.ChangedAt)
		}
		v.reportedAfter = max(v.reportedAfter, after)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if v.tally.DeadLetters > 0 {
		t.Errorf("%d dead letters", v.tally.DeadLetters)
	}
}

// reopened returns how long after an instant the first unit was granted.
func (v *trialResult) reopened(after time.Time) (time.Duration, bool) {
	var first time.Time
	for _, o := range v.seen {
		if o.Action == calllog.Buy && o.Status == http.StatusAccepted && o.Granted.After(after) && (first.IsZero() || o.At.Before(first)) {
			first = o.At
		}
	}
	return first.Sub(after), !first.IsZero()
}

// stop stops all processes in order.
func (y *trial) stop() {
	for _, c := range y.all() {
		if err := c.Stop(); err != nil {
			y.t.Error(err)
		}
		y.remove(c)
	}
}

// view returns the sale as one process shows it.
func (y *trial) view(c *shopProcess) (v struct {
	Phase string
	Stock int64
	Free  int64
}, err error) {
	r, err := http.Get(c.Shop + "/api/sales/" + y.sale)
	if err != nil {
		return v, err
	}
	defer r.Body.Close()
	return v, json.NewDecoder(r.Body).Decode(&v)
}
