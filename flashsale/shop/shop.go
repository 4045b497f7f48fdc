package shop

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// Shop implements sale.BuyerService and sale.MerchantService. It is safe for concurrent use.
type Shop struct {
	sale.BuyerService
	sale.MerchantService

	env      *env
	catalog  *catalog
	limits   *admission
	writers  []*orderWriter
	drainer  *orderWriter // writes what recoveries find in earlier epochs
	sweeper  *sweeper
	networks *networkRecorder
	finder   *orderFinder
	curves   *curveRecorder // nil without Config.Curves
	buyers   *buyers
	worker   string

	mu      sync.Mutex // guards what follows
	started bool
	stopped bool
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

// New returns a Shop that has not started.
func New(c Config) (*Shop, error) {
	c, err := c.validated()
	if err != nil {
		return nil, err
	}
	e := &env{inventory: c.Inventory, ledger: c.Ledger, clock: c.Clock, log: c.Log, crash: c.Crash, timeout: c.Deadline,
		began: time.Now(), streams: newReadyStreams()}
	rate, err := newWriteRate(c.Limits, c.Worker)
	if err != nil {
		return nil, err
	}
	s := &Shop{env: e, worker: c.Worker}
	s.catalog = newCatalog(e, s.runSale)
	s.limits = &admission{env: e, store: c.Limits, rate: rate}
	s.finder = &orderFinder{env: e, catalog: s.catalog}
	writer := func(name string) *orderWriter {
		return &orderWriter{env: e, rate: rate, worker: c.Worker + "-" + name}
	}
	for i := range c.Workers {
		s.writers = append(s.writers, writer(strconv.Itoa(i+1)))
	}
	s.drainer = writer("recovery")
	s.sweeper = &sweeper{env: e, catalog: s.catalog, wake: make(chan struct{}, 1)}
	s.networks = &networkRecorder{env: e, queue: make(chan sale.NetworkUse, maxNetworkUses)}
	if c.Curves != nil {
		s.curves = &curveRecorder{env: e, catalog: s.catalog, store: c.Curves, process: rand.Text(), recorded: map[*liveSale]figures{}}
	}
	s.buyers = &buyers{env: e, quantity: 1, catalog: s.catalog, admission: s.limits, finder: s.finder, sweeper: s.sweeper,
		networks: s.networks, keys: c.Keys, maxWaiting: c.MaxWaiting, run: s.run}
	s.BuyerService = s.buyers
	s.MerchantService = &merchants{env: e, catalog: s.catalog, admission: s.limits, sweeper: s.sweeper, recovery: s.recovery,
		worker: c.Worker, workers: c.Workers, refused: c.Refused, members: c.Members, curves: c.Curves}
	return s, nil
}

// Start reads the live sales from the ledger once and starts the background work, which runs
// until Stop. ctx bounds that first read alone. If the ledger is unavailable, Start succeeds
// and the background work tries again.
func (s *Shop) Start(ctx context.Context) error {
	s.mu.Lock()
	if s.started {
		s.mu.Unlock()
		return errors.New("shop: started already")
	}
	s.started = true
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.mu.Unlock()
	s.catalog.refresh(ctx, true)
	s.run(s.catalog.run)
	s.run((&attendance{env: s.env, catalog: s.catalog, worker: s.worker}).run)
	s.run(s.sweeper.run)
	s.run(s.networks.run)
	if s.curves != nil {
		s.run(s.curves.run)
	}
	for _, w := range s.writers {
		s.run(w.run)
	}
	return nil
}

// Stop ends the background work and waits for it; work in progress has Deadline to complete.
// Stop does nothing if the Shop is stopped or was not started.
func (s *Shop) Stop() {
	s.mu.Lock()
	s.stopped = true
	if s.cancel != nil {
		s.cancel()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// run calls f in a goroutine that Stop waits for. After Stop it does nothing.
func (s *Shop) run(f func(context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	s.wg.Go(func() { f(s.ctx) })
}

// runSale starts the background work of one sale.
func (s *Shop) runSale(l *liveSale) {
	r := s.recovery(l)
	sync := &inventorySync{env: s.env, catalog: s.catalog, finder: s.finder, recovery: r, sale: l}
	s.run(sync.run)
	if l.snapshot.Load().sale.Queue == sale.Direct {
		s.run((&slotReturner{env: s.env, admission: s.limits, sale: l}).run)
	}
}

func (s *Shop) recovery(l *liveSale) *recovery {
	return &recovery{env: s.env, writer: s.drainer, finder: s.finder, sale: l}
}

// PaymentApplied reports a payment that the ledger has applied without a call of Pay.
func (s *Shop) PaymentApplied(p sale.PayResult) { s.buyers.applied(p) }

// Stats returns the counters since New and the current state.
func (s *Shop) Stats() Stats {
	st := s.env.stats.read()
	st.Drain, st.Workers = s.limits.rate.perSecond(), len(s.writers)
	for _, l := range s.catalog.live() {
		p := l.snapshot.Load()
		st.Sales++
		if p.counted {
			st.Waiting += p.counts.Waiting
			st.Outstanding += p.counts.Outstanding
			st.Free += p.counts.Free
			st.Backlog += p.counts.Backlog
		}
	}
	return st
}
