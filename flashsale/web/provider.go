package web

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// Limits of the mock payment provider.
const (
	maxCharges = 10_000 // pending callbacks
	maxOfUser  = 20     // pending callbacks of one user
	maxCalls   = 32     // callbacks in progress
	callTries  = 10     // attempts of one callback while the shop is unavailable
	callFor    = 5 * time.Second
	callAgain  = 500 * time.Millisecond
)

// charge is a payment with a pending callback.
type charge struct {
	user, receipt, payment string
	amount                 int64
}

// provider is a mock payment provider. It accepts every payment after a delay.
type provider struct {
	desk  sale.BuyerService
	log   *slog.Logger
	ctx   context.Context
	stop  context.CancelFunc
	slots chan struct{}

	mu     sync.Mutex
	closed bool
	all    int
	of     map[string]int // pending callbacks by user
	under  sync.WaitGroup
}

func newProvider(desk sale.BuyerService, log *slog.Logger) *provider {
	ctx, stop := context.WithCancel(context.Background())
	return &provider{desk: desk, log: log, ctx: ctx, stop: stop, slots: make(chan struct{}, maxCalls), of: map[string]int{}}
}

// later calls back after a delay. It returns false if too many callbacks are pending.
func (p *provider) later(c charge, after time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.all >= maxCharges || p.of[c.user] >= maxOfUser {
		return false
	}
	p.all++
	p.of[c.user]++
	p.under.Add(1)
	timer := time.NewTimer(after)
	go func() {
		defer p.done(c)
		defer timer.Stop()
		select {
		case <-timer.C:
			p.call(c)
		case <-p.ctx.Done():
		}
	}()
	return true
}

func (p *provider) done(c charge) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	if p.of[c.user]--; p.of[c.user] <= 0 {
		delete(p.of, c.user)
	}
	p.under.Done()
}

// call calls back. It retries for a while if the shop is unavailable or has not written the
// order yet.
func (p *provider) call(c charge) {
	for try := 1; ; try++ {
		err := p.once(c)
		if err == nil || p.ctx.Err() != nil {
			return
		}
		again := errors.Is(err, sale.ErrUnavailable) || errors.Is(err, sale.ErrNotFound) || errors.Is(err, context.DeadlineExceeded)
		if !again || try == callTries {
			p.log.Warn("a payment was not taken", "payment", c.payment, "tries", try, "error", err)
			return
		}
		select {
		case <-time.After(callAgain):
		case <-p.ctx.Done():
			return
		}
	}
}

func (p *provider) once(c charge) error {
	select {
	case p.slots <- struct{}{}:
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
	defer func() { <-p.slots }()
	ctx, cancel := context.WithTimeout(p.ctx, callFor)
	defer cancel()
	_, err := p.desk.Pay(ctx, c.receipt, c.payment, c.amount)
	return err
}

func (p *provider) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.stop()
	p.under.Wait()
}
