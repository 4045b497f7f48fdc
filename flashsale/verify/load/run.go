package load

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir/flashsale/verify/calllog"
	"github.com/floodweir/weir/flashsale/verify/load/measure"
)

// clients is a run in progress.
type clients struct {
	Config
	began time.Time
	log   *calllog.Log
	end   chan struct{} // closed when the limit on requests is reached

	left       atomic.Int64 // requests that may still be sent
	requests   atomic.Int64 // requests with a response
	unanswered atomic.Int64 // users without a response
	busy       atomic.Int64 // see Result
	inBusy     atomic.Int64

	// Times since the start of the run in nanoseconds; 0 for never.
	firstGrant, lastGrant, lastPlaced, firstSoldOut atomic.Int64
	grants, orders                                  atomic.Int64

	all, due measure.Histogram
	calls    [calls]measure.Histogram
}

// Run runs the load. The Result next to an error covers the run up to the error.
func Run(ctx context.Context, c Config) (Result, error) {
	if err := c.check(); err != nil {
		return Result{}, err
	}
	r := &clients{Config: c, end: make(chan struct{})}
	if c.Observations != nil {
		r.log = calllog.NewLog(c.Observations)
	}
	r.left.Store(c.Requests)
	r.unanswered.Store(int64(c.Users))
	workers := r.newWorkers()
	runtime.GC() // collect the garbage of the setup before the measurement
	if wait := time.Until(c.At); wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return Result{}, fmt.Errorf("load: before the start: %w", context.Cause(ctx))
		}
	}
	r.began = time.Now()
	run, stop := context.WithDeadline(ctx, r.began.Add(c.Duration))
	defer stop()
	use := measure.Start(c.Processes)
	r.runWorkers(run, workers)
	bound := run.Err() != nil || r.left.Load() < 0
	took := time.Since(r.began)
	usage := use.Stop(took)
	return r.result(workers, took, bound, usage), r.finish(ctx, workers)
}

// newWorkers returns the connections with their users.
func (r *clients) newWorkers() []*worker {
	addr, _ := r.address() // checked
	ws := make([]*worker, r.Connections)
	for i := range ws {
		ws[i] = r.newWorker(addr)
		if r.Profile == Mixed {
			ws[i].twin = &twin{w: r.newWorker(addr), ask: make(chan twinCall), answer: make(chan int)}
		}
	}
	for id := range r.Users {
		u := user{id: id, next: session}
		if r.Session != nil {
			u.cookie, u.next = []byte(r.Session(fmt.Sprint(r.Prefix, id))), join
		}
		w := ws[id%len(ws)]
		due := int64(float64(r.Over) * float64(id) / float64(r.Users))
		w.arrivals = append(w.arrivals, event{due, int32(len(w.users))})
		w.users = append(w.users, u)
	}
	if r.log != nil && !r.Sampled {
		for _, w := range ws { // so that no buffer grows during the measurement
			w.buffered = make([]calllog.Call, min(maxBuffered, callsPerUser*len(w.users)))
			clear(w.buffered[:min(len(w.buffered), maxTouched/len(ws))]) // or the system would provide its pages during the measurement
			w.buffered = w.buffered[:0]
		}
	}
	return ws
}

func (r *clients) newWorker(addr string) *worker {
	return &worker{clients: r, wire: wire{addr: addr, host: addr},
		reasons: map[string]int64{}, layers: map[string]int64{}, errors: map[string]int64{}, faults: map[string]int64{},
		sampled: map[calllog.Call]*calllog.Call{}}
}

// runWorkers runs all workers to their end.
func (r *clients) runWorkers(ctx context.Context, ws []*worker) {
	var group, beside sync.WaitGroup
	for _, w := range ws {
		if w.twin != nil {
			beside.Go(func() {
				cut := context.AfterFunc(ctx, w.twin.w.cut)
				defer cut()
				w.twin.work(ctx)
			})
		}
		group.Go(func() {
			// A connection that waits for a response does not check ctx: cut closes it.
			cut := context.AfterFunc(ctx, w.cut)
			defer cut()
			if r.Profile == SoldOut {
				w.flood(ctx)
			} else {
				w.run(ctx)
			}
			if w.twin != nil {
				close(w.twin.ask)
			}
		})
	}
	done := make(chan struct{})
	if r.Backlog != nil {
		beside.Go(func() { r.watchBacklog(ctx, done) })
	}
	group.Wait()
	close(done)
	beside.Wait()
}

// watchBacklog polls the backlog from the first reservation until it is empty and all users have
// stopped.
func (r *clients) watchBacklog(ctx context.Context, done <-chan struct{}) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for over := false; ctx.Err() == nil; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		granted, last := r.grants.Load(), r.lastGrant.Load()
		if granted > r.orders.Load() {
			n, err := r.Backlog(ctx)
			if err == nil && n == 0 && last == r.lastGrant.Load() {
				r.orders.Store(granted)
				storeMax(&r.lastPlaced, time.Since(r.began))
			}
		} else if over {
			return
		}
		select {
		case <-done:
			over = true
		default:
		}
	}
}

func (r *clients) granted(at time.Duration) {
	r.grants.Add(1)
	r.firstGrant.CompareAndSwap(0, int64(at))
	storeMax(&r.lastGrant, at)
}

func (r *clients) placed(at time.Duration) {
	if r.Backlog == nil {
		r.orders.Add(1)
		storeMax(&r.lastPlaced, at)
	}
}

func (r *clients) soldOut(at time.Duration) { r.firstSoldOut.CompareAndSwap(0, int64(at)) }

func storeMax(v *atomic.Int64, at time.Duration) {
	for was := v.Load(); int64(at) > was; was = v.Load() {
		if v.CompareAndSwap(was, int64(at)) {
			return
		}
	}
}

// finish writes the remaining observations.
func (r *clients) finish(ctx context.Context, ws []*worker) error {
	if r.log != nil {
		for _, w := range withTwins(ws) {
			w.write()
			for _, o := range w.sampled {
				r.log.Record(*o)
			}
		}
		if err := r.log.Flush(); err != nil {
			return fmt.Errorf("load: %w", err)
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("load: stopped: %w", context.Cause(ctx))
	}
	return nil
}

// withTwins returns the workers and their second connections.
func withTwins(ws []*worker) []*worker {
	all := ws
	for _, w := range ws {
		if w.twin != nil {
			all = append(all[:len(all):len(all)], w.twin.w)
		}
	}
	return all
}

// result adds up the counters of all workers.
func (r *clients) result(ws []*worker, took time.Duration, bound bool, usage measure.Resources) Result {
	res := Result{
		Profile: r.Profile, Mode: r.Mode, Work: r.Work, Sale: r.Sale, Users: r.Users, Connections: r.Connections,
		Began: r.began, Over: r.Over, Took: took, Bound: bound, Requests: r.requests.Load(),
		Busy: time.Duration(r.busy.Load()), InBusy: r.inBusy.Load(),
		Latency: r.all.Quantiles(), Due: r.due.Quantiles(), Calls: map[string]measure.Quantiles{},
		Status: map[int]int64{}, Reasons: map[string]int64{}, Layers: map[string]int64{},
		Errors: map[string]int64{}, Faults: map[string]int64{},
		Reserved: time.Duration(r.lastGrant.Load()), FirstSoldOut: time.Duration(r.firstSoldOut.Load()),
		Machine: measure.ThisMachine(), CPU: usage.Own, Share: usage.Share, Servers: usage.Servers,
	}
	if res.Busy == 0 || r.Profile == SoldOut {
		res.Busy, res.InBusy = took, res.Requests
	}
	res.PerSecond = float64(res.InBusy) / max(res.Busy, time.Microsecond).Seconds()
	if n := r.grants.Load(); n > 0 && r.orders.Load() >= n {
		res.Drained = time.Duration(r.lastPlaced.Load())
		if since := res.Drained - time.Duration(r.firstGrant.Load()); since > 0 {
			res.Drain = float64(n) / since.Seconds()
		}
	}
	for c := range calls {
		if q := r.calls[c].Quantiles(); q.Count > 0 {
			res.Calls[c.String()] = q
		}
	}
	var sent, received int64
	for _, w := range withTwins(ws) {
		sent += w.sent
		res.Lost += w.lostUnits
		received += w.received
		for status, n := range w.status {
			if n > 0 {
				res.Status[status] += n
			}
			if status >= 400 {
				res.Refused += n
			}
		}
		for _, m := range []struct{ to, from map[string]int64 }{
			{res.Reasons, w.reasons}, {res.Layers, w.layers}, {res.Errors, w.errors}, {res.Faults, w.faults}} {
			for k, n := range m.from {
				m.to[k] += n
			}
		}
		for i := range w.users {
			w.users[i].count(&res)
		}
	}
	res.Sent = float64(sent) / float64(max(1, res.Requests))
	res.Received = float64(received) / float64(max(1, res.Requests))
	return res
}

// count adds the outcome of a user to r.
func (u *user) count(r *Result) {
	switch u.outcome {
	case active:
		r.Active++
	case soldOut:
		r.SoldOut++
	case gaveUp:
		r.GaveUp++
	case bought:
		r.Bought++
	case paid:
		r.Bought++
		r.Paid++
	case cancelled:
		r.Bought++
		r.Canceled++
	}
}
