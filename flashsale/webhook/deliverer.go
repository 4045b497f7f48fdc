package webhook

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// LeaseFor bounds the time that a Deliverer has a delivery for itself. It is longer than an attempt.
const LeaseFor = 30 * time.Second

const (
	timeout     = 15 * time.Second // of an attempt
	poll        = time.Second      // between two looks for due deliveries
	sweep       = 5 * time.Second  // between two calls of Store.Sweep
	keepFor     = 30 * 24 * time.Hour
	perEndpoint = 16  // attempts in progress to an endpoint
	maxAttempts = 128 // attempts in progress
	maxFinish   = 200 // results of one transaction
)

// Config configures a Deliverer. Store is required.
type Config struct {
	Store Store

	// Networks are the networks that endpoints may be in besides the public internet.
	Networks []netip.Prefix

	Client   *http.Client          // for tests; its own if nil
	Clock    func() time.Time      // time.Now if nil
	Registry prometheus.Registerer // for metrics; none if nil
	Log      *slog.Logger          // discards if nil
}

// Deliverer sends the events of a Store to their endpoints.
type Deliverer struct {
	c       Config
	metrics *metrics
	wake    chan struct{} // an attempt has finished
	results chan Result
	ctx     context.Context // of the background work
	cancel  context.CancelFunc
	ended   sync.WaitGroup

	mu   sync.Mutex
	busy map[string]int // attempts in progress, by endpoint
	all  int            // their sum
}

// New returns a Deliverer. Start starts it.
func New(c Config) (*Deliverer, error) {
	if c.Store == nil {
		return nil, errors.New("webhook: Store: got nil, want a store")
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Client == nil {
		c.Client = &http.Client{Transport: newTransport(c.Networks)}
	}
	client := *c.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.Client = &client
	d := &Deliverer{c: c, metrics: newMetrics(), wake: make(chan struct{}, 1), results: make(chan Result, maxAttempts), busy: map[string]int{}}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	if c.Registry != nil {
		if err := c.Registry.Register(d.metrics); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// Start starts the background work.
func (d *Deliverer) Start() {
	d.ended.Go(d.deliver)
	d.ended.Go(d.finish)
	d.ended.Go(d.sweep)
}

// Stop stops the background work. It aborts attempts in progress, which are repeated later.
func (d *Deliverer) Stop() {
	d.cancel()
	d.ended.Wait()
	d.c.Client.CloseIdleConnections()
}

// deliver leases due deliveries and sends them.
func (d *Deliverer) deliver() {
	var sends sync.WaitGroup
	defer func() { sends.Wait(); close(d.results) }()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		if err := d.round(&sends); err != nil && d.ctx.Err() == nil {
			d.metrics.storeErrors.Add(1)
			d.c.Log.Warn("webhooks: cannot lease deliveries, will retry", "error", err)
		}
		select {
		case <-d.ctx.Done():
			return
		case <-tick.C:
		case <-d.wake: // a later event of an order may be due now
		}
	}
}

// round leases due deliveries of each endpoint that has free attempts.
func (d *Deliverer) round(sends *sync.WaitGroup) error {
	now := d.c.Clock()
	endpoints, err := d.c.Store.DueEndpoints(d.ctx, now)
	if err != nil {
		return err
	}
	for _, e := range endpoints {
		free := d.free(e.ID)
		if free < perEndpoint/2 { // leases of a few would cost a transaction each
			continue
		}
		leased, err := d.c.Store.Lease(d.ctx, e.ID, now, now.Add(LeaseFor), free)
		if err != nil {
			return err
		}
		d.count(e.ID, len(leased))
		for _, l := range leased {
			sends.Go(func() { d.results <- d.attempt(e, l) })
		}
	}
	return nil
}

// free returns how many more attempts to an endpoint can be in progress.
func (d *Deliverer) free(endpoint string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return min(perEndpoint-d.busy[endpoint], maxAttempts-d.all)
}

// count adds n attempts in progress.
func (d *Deliverer) count(endpoint string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all += n
	if d.busy[endpoint] += n; d.busy[endpoint] == 0 {
		delete(d.busy, endpoint)
	}
}

// finish stores results, as many in a transaction as are there.
func (d *Deliverer) finish() {
	for first := range d.results {
		batch := []Result{first}
	collect:
		for len(batch) < maxFinish {
			select {
			case r, ok := <-d.results:
				if !ok {
					break collect
				}
				batch = append(batch, r)
			default:
				break collect
			}
		}
		// Also after Stop: a result that is not stored is sent again.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), timeout)
		err := d.c.Store.Finish(ctx, d.c.Clock(), batch)
		cancel()
		if err != nil {
			d.metrics.storeErrors.Add(1)
			d.c.Log.Warn("webhooks: cannot store results, will send again", "events", len(batch), "error", err)
		}
		for _, r := range batch {
			d.count(r.Delivery.Endpoint, -1)
		}
		select {
		case d.wake <- struct{}{}:
		default:
		}
	}
}

// sweep does the rest of the background work.
func (d *Deliverer) sweep() {
	tick := time.NewTicker(sweep)
	defer tick.Stop()
	for {
		now := d.c.Clock()
		err := d.c.Store.Sweep(d.ctx, now, now.Add(-keepFor))
		var n Counts
		if err == nil {
			n, err = d.c.Store.Counts(d.ctx)
		}
		if err == nil {
			d.metrics.set(n, now)
		} else if d.ctx.Err() == nil {
			d.metrics.storeErrors.Add(1)
			d.c.Log.Warn("webhooks: cannot sweep, will retry", "error", err)
		}
		select {
		case <-d.ctx.Done():
			return
		case <-tick.C:
		}
	}
}
