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
	"github.com/redis/rueidis"
)

// A trial is one sale of several processes, to which something happens in the middle of it.
// Customers come one after the other, to all of the processes, and go to another one when
// theirs does not answer. The auditor watches, and judges at the end.
type trial struct {
	t      *testing.T
	config run.Config
	redis  rueidis.Client // of the auditor; nil in the embedded mode
	units  int64
	come   time.Duration // customers come within this time after the start …
	people int           // … so many
	pay    time.Duration // they have to pay
	failed bool          // an inventory may have lost what it had acknowledged
	killed bool          // the merchant ends the sale, whatever is wanted
	late   int           // so many of the customers come when the trouble has begun, not before
	holds  []*held       // of the first customers, who pay

	sale  string
	start time.Time
	begun chan struct{} // closed when the trouble has
	log   *auditor.Log
	seen  bytes.Buffer
	cut   atomic.Int64 // answers that broke off

	mu    sync.Mutex
	shops []*shopProcess // that serve
}

// newTrial is a trial of so many units and three times as many customers, with default times.
func newTrial(t *testing.T, c run.Config, redis string) *trial {
	c.Shop, c.Office = "127.0.0.1:0", "127.0.0.1:0"
	c.TrustedProxies = []string{"127.0.0.1"}
	if c.Layers == "" {
		c.Layers = impatientFile(t)
	}
	y := &trial{t: t, config: c, units: 70, people: 150, come: 3 * time.Second, pay: 2 * time.Second, begun: make(chan struct{})}
	if redis != "" {
		y.redis = redisClient(t, redis)
	}
	y.log = auditor.NewLog(&y.seen)
	return y
}

func (y *trial) draft() sale.Draft {
	y.start = time.Now().Add(700 * time.Millisecond).Truncate(time.Millisecond)
	return sale.Draft{SKU: "trial", Title: "trial", Price: 100, Stock: y.units, PerUser: 1, StartsAt: y.start,
		EndsAt: y.start.Add(time.Hour), Queue: sale.Fifo, PayWithin: y.pay, TokenFor: time.Second}
}

// serve starts another process, and the first of a trial makes the sale. One that is not
// ready within a minute is a fault.
func (y *trial) serve(ahead time.Duration) *shopProcess {
	o := child.Order{Config: y.config, Ahead: ahead}
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

// leave takes a process out of those to which customers come.
func (y *trial) leave(c *shopProcess) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.shops = slices.DeleteFunc(y.shops, func(s *shopProcess) bool { return s == c })
}

// shop is one of the processes that serve.
func (y *trial) shop(i int) *shopProcess {
	y.mu.Lock()
	defer y.mu.Unlock()
	if len(y.shops) == 0 {
		return nil
	}
	return y.shops[i%len(y.shops)]
}

// all are the processes that serve.
func (y *trial) all() []*shopProcess {
	y.mu.Lock()
	defer y.mu.Unlock()
	return slices.Clone(y.shops)
}

// endOf is what a customer does with a unit: of eight, one cancels and one lets it lapse, if
// it need not wait long for that.
func (y *trial) endOf(i int) end {
	switch {
	case i%8 == 3:
		return cancels
	case i%8 == 6 && y.pay <= 2*time.Second:
		return lapses
	}
	return pays
}

// visit is a customer, until all is over. Who has lost a place comes again as another.
func (y *trial) visit(ctx context.Context, i int) (string, error) {
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
		c := &customer{Base: &base, Sale: y.sale, Ends: y.endOf(i), Log: y.log, From: fmt.Sprintf("198.51.%d.%d", i/250, i%250+1),
			Away: func(err error) {
				if errors.Is(err, io.ErrUnexpectedEOF) {
					y.cut.Add(1)
				}
				move()
			}}
		if i < len(y.holds) {
			c.Holds = y.holds[i]
		}
		state, err := c.shop(ctx)
		if err != nil || state != "lost" && state != "rejected" {
			return state, err
		}
	}
}

// trialWithin is how long a trial may take.
const trialWithin = 2 * time.Minute

// A verdict is what came of a trial.
type verdict struct {
	ends         []string
	seen         []auditor.Observation
	tally        sale.OrderTotals
	told         map[string]bool // receipts whose customers were told that they are lost or rejected
	checks       int64
	unpaid, away int // calls to pay, and all calls, that were answered 503
}

// sells lets customers come, does something to the sale a second after its start, and waits
// until all customers have what they came for, or have heard that it is gone.
func (y *trial) sells(trouble func(ctx context.Context)) *verdict {
	t := y.t
	ctx, cancel := context.WithTimeout(context.Background(), trialWithin)
	defer cancel()
	watch, err := auditor.Open(ctx, y.auditor())
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	watching, stop := context.WithCancel(ctx)
	var beside, crowd sync.WaitGroup
	beside.Go(func() { watch.Watch(watching) })
	v := &verdict{ends: make([]string, y.people), told: map[string]bool{}}
	for i := range v.ends {
		crowd.Go(func() {
			if i >= len(v.ends)-y.late {
				select {
				case <-y.begun:
				case <-ctx.Done():
				}
			}
			if !until(ctx, y.start.Add(time.Duration(i)*y.come/time.Duration(y.people)-50*time.Millisecond)) {
				return
			}
			var err error
			if v.ends[i], err = y.visit(ctx, i); err != nil {
				t.Errorf("customer %d: %v", i, err)
			}
		})
	}
	until(ctx, y.start.Add(700*time.Millisecond))
	trouble(ctx)
	crowd.Wait()
	stop()
	beside.Wait()
	if r := watch.Report(); r.Violations() > 0 {
		t.Errorf("while it was watched:\n%s", table(r))
	}
	v.checks = watch.Report().Checks()
	y.judge(ctx, v)
	return v
}

// pays waits until somebody has paid.
func (y *trial) pays() {
	y.t.Helper()
	l, err := run.OpenLedger(y.t.Context(), y.config)
	if err != nil {
		y.t.Fatal(err)
	}
	defer l.Close()
	redistest.Await(y.t, "somebody has paid", func() error {
		n, err := l.Totals(y.t.Context(), y.sale)
		if err == nil && n.Paid == 0 {
			err = fmt.Errorf("nobody has: %+v", n)
		}
		return err
	})
}

func (y *trial) auditor() auditor.Config {
	return auditor.Config{Database: database(y.config), Redis: y.redis, Sales: []string{y.sale}, StableWithin: 15 * time.Second}
}

// judge asks the auditor, and compares what customers were told with what the ledger has.
func (y *trial) judge(ctx context.Context, v *verdict) {
	t := y.t
	if err := y.log.Flush(); err != nil {
		t.Fatal(err)
	}
	var err error
	if v.seen, err = auditor.Read(bytes.NewReader(y.seen.Bytes())); err != nil {
		t.Fatal(err)
	}
	wanted := int64(0)
	for i := range v.ends {
		if y.endOf(i) == pays && !y.killed {
			wanted++
		}
	}
	a, err := auditor.Open(context.WithoutCancel(ctx), y.auditor())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if ctx.Err() != nil {
		t.Fatalf("not over after %v:\n%s", trialWithin, summary(v.seen))
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
		t.Errorf("%d answers broke off", y.cut.Load())
	}
	v.count(y)
}

// count reads the ledger, and what customers were told.
func (v *verdict) count(y *trial) {
	t := y.t
	l, err := run.OpenLedger(t.Context(), y.config)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if v.tally, err = l.Totals(t.Context(), y.sale); err != nil {
		t.Fatal(err)
	}
	for _, o := range v.seen {
		if o.Status == http.StatusServiceUnavailable {
			v.away++
			if o.Action == auditor.Pay {
				v.unpaid++
			}
		}
		if o.State == "lost" || o.State == "rejected" {
			v.told[o.Receipt] = true
		}
	}
	if n := v.tally.Lost + v.tally.Rejected; int64(len(v.told)) > n {
		t.Errorf("%d customers were told that their place is lost, and the ledger has %d", len(v.told), n)
	}
	if v.tally.DeadLetters > 0 {
		t.Errorf("%d entries were buried", v.tally.DeadLetters)
	}
}

// reopened is how long after an instant the first unit was granted and answered.
func (v *verdict) reopened(after time.Time) (time.Duration, bool) {
	var first time.Time
	for _, o := range v.seen {
		if o.Action == auditor.Buy && o.Status == http.StatusAccepted && o.Granted.After(after) && (first.IsZero() || o.At.Before(first)) {
			first = o.At
		}
	}
	return first.Sub(after), !first.IsZero()
}

// ends lets every process end in order.
func (y *trial) ends() {
	for _, c := range y.all() {
		if err := c.Stop(); err != nil {
			y.t.Error(err)
		}
		y.leave(c)
	}
}

// view asks one process for the sale.
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
