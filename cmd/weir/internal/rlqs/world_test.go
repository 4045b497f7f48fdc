package rlqs_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
	"github.com/floodweir/weir/cmd/weir/internal/rlqs"
	"github.com/floodweir/weir/cmd/weir/internal/rls"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/share"
)

const domain = "edge"

// A world is a bubble with servers, a ledger and clients.
type world struct {
	t      *testing.T
	start  time.Time
	ledger share.Ledger
	config rlqs.Config
	limits *ratelimit.Config
	limit  weir.Limit

	mu       sync.Mutex
	log      []admission
	events   map[rlqs.Action]int
	clients  []*filter
	machines []*machine
	ends     []func()
}

// An admission is n admitted requests at an instant, in µs.
type admission struct{ at, n int64 }

// A machine is a server.
type machine struct {
	*listener
	rlqs *rlqs.Server
	grpc *rls.GRPCServer
	done chan struct{}
}

// inWorld runs test in virtual time. The limit is that of all buckets with the key "user".
func inWorld(t *testing.T, limit string, c rlqs.Config, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, start: time.Now(), config: c, events: map[rlqs.Action]int{}}
		w.ledger = share.NewMemory(nil)
		w.use(limit)
		test(t, w)
		for _, end := range w.ends {
			end()
		}
		for _, f := range w.clients {
			f.kill()
		}
		for _, m := range w.machines {
			m.stop()
		}
	})
}

// parse returns limits, with one for user.
func parse(t testing.TB, limit string) (*ratelimit.Config, weir.Limit) {
	t.Helper()
	l := weir.MustLimit(limit)
	c, err := ratelimit.Parse("limits.yaml", fmt.Appendf(nil, `
domain: %s
descriptors:
  - key: user
    rate_limit: { requests_per_unit: %d, window: %v, algorithm: token_bucket, burst: %d }
  - key: zero
    rate_limit: { requests_per_unit: 0, unit: second }
  - key: a
    descriptors:
      - key: b
        value: x
        rate_limit: { requests_per_unit: 1000, unit: second, algorithm: token_bucket, burst: 4000 }
`, domain, l.Count(), l.Period(), l.Capacity()))
	if err != nil {
		t.Fatal(err)
	}
	return c, l
}

// use puts a limit into force.
func (w *world) use(limit string) {
	w.mu.Lock()
	w.limits, w.limit = parse(w.t, limit)
	w.mu.Unlock()
	for _, m := range w.machines {
		if err := m.rlqs.Use(w.limits); err != nil {
			w.t.Fatal(err)
		}
	}
}

// serve starts a server.
func (w *world) serve() *machine {
	c := w.config
	c.Ledger, c.Domains = w.ledger, []string{domain}
	c.Observe = func(e rlqs.Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if e.Action != "" {
			w.events[e.Action]++
		}
	}
	s, err := rlqs.New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := s.Use(w.limits); err != nil {
		w.t.Fatal(err)
	}
	m := &machine{newListener(), s, rls.NewServer(rls.ServerConfig{Ping: rlqs.Ping}), make(chan struct{})}
	s.Register(m.grpc)
	go func() {
		defer close(m.done)
		_ = m.grpc.Serve(m.listener)
	}()
	w.machines = append(w.machines, m)
	return m
}

// crash ends a server without a word to its clients.
func (m *machine) crash() {
	m.listener.kill()
	m.stop()
}

func (m *machine) stop() {
	m.grpc.Stop()
	<-m.done
	m.rlqs.Close()
}

// client starts a client with a rate of requests per second.
func (w *world) client(to *machine, rate float64, m manner) *filter {
	f := &filter{
		t: w.t, w: w, link: newLink(), id: map[string]string{"user": "x"}, manner: m, rand: rand.New(rand.NewPCG(uint64(len(w.clients)), 3)),
		responses: make(chan received), ended: make(chan struct{}), rate: rate, server: to.listener,
	}
	var ctx context.Context
	ctx, f.stop = context.WithCancel(context.Background())
	go f.run(ctx)
	w.clients = append(w.clients, f)
	return f
}

// kill ends a client without a word.
func (f *filter) kill() {
	f.stop()
	<-f.ended
}

// forget loses the ledger.
func (w *world) forget() { w.ledger = share.NewMemory(nil) }

// admit logs admissions.
func (w *world) admit(n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, admission{time.Now().UnixMicro(), n})
}

// clear empties the log.
func (w *world) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = nil
}

// admissions returns the number of admissions.
func (w *world) admissions() (n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.log {
		n += a.n
	}
	return n
}

// own returns the number of admissions by clients.
func (w *world) own() (n int64) {
	for _, f := range w.clients {
		admitted, _ := f.counts()
		n += admitted
	}
	return n
}

// excess replays all admissions through the limit, and returns how many exceed it.
func (w *world) excess() int64 { return w.excessOf(w.limit) }

// excessOf replays all admissions through a limit.
func (w *world) excessOf(limit weir.Limit) (n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortStableFunc(w.log, func(a, b admission) int { return cmp.Compare(a.at, b.at) })
	var state []int64
	for _, a := range w.log {
		var r algo.Result
		if state, r = limit.Spec().Rule.Do(state, algo.Ask{Op: algo.TakeUpTo, Now: a.at, N: a.n}); r.Granted < a.n {
			n += a.n - r.Granted
		}
	}
	return n
}

// compete starts a process that takes all tokens of the remainder again and again. A token that a
// client got and that was not taken from there then exceeds the limit.
func (w *world) compete(most time.Duration) {
	strict, err := memstore.New(memstore.Config{})
	if err != nil {
		w.t.Fatal(err)
	}
	store, err := share.New(strict, w.ledger, share.Config{Threshold: 1 << 60})
	if err != nil {
		w.t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(uint64(most), 9))
	m, _ := w.limits.Domain(domain).Match([]ratelimit.Entry{{Key: "user", Value: "x"}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			rlqs.Pass(time.Duration(r.Int64N(int64(most))))
			w.mu.Lock()
			limit := w.limit.Named("rlqs")
			w.mu.Unlock()
			d, err := store.Do(context.Background(), weir.Request{Verb: weir.TakeUpTo, Key: m.Key, Limit: limit, N: limit.Capacity()})
			if err != nil {
				w.t.Errorf("the competitor: %v", err)
				return
			}
			if d.Granted > 0 {
				w.admit(d.Granted)
			}
		}
	}()
	w.ends = append(w.ends, func() {
		cancel()
		<-ended
		if err := store.Close(); err != nil {
			w.t.Error(err)
		}
	})
}

// settles lets time pass, and fails if less than a part of the limit is used then, or if the
// admissions exceed it.
func (w *world) settles(after time.Duration, least float64) {
	w.t.Helper()
	rlqs.Pass(after)
	used := w.used(20 * time.Second)
	w.strict()
	if used < least {
		w.t.Errorf("%.0f%% of the limit used at the end, want %.0f%%", used*100, least*100)
	}
}

// actions returns how many there were of each.
func (w *world) actions() map[rlqs.Action]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.events)
}

// strict fails if the admissions exceed the limit.
func (w *world) strict() {
	w.t.Helper()
	if n := w.excess(); n > 0 {
		w.t.Errorf("%d of %d admissions exceed the limit, want none", n, w.admissions())
	}
}

// check checks what holds for every response.
func (w *world) check(r *pb.RateLimitQuotaResponse) {
	if err := r.ValidateAll(); err != nil {
		w.t.Errorf("response: %v", err)
	}
	if len(r.GetBucketAction()) == 0 {
		w.t.Error("response without an action")
	}
	for _, a := range r.GetBucketAction() {
		q := a.GetQuotaAssignmentAction()
		if q == nil {
			continue
		}
		if ttl := q.GetAssignmentTimeToLive().AsDuration(); ttl < time.Second || ttl%time.Second != 0 {
			w.t.Errorf("assignment_time_to_live: %v, want whole seconds", ttl)
		}
		if q.GetRateLimitStrategy().GetStrategy() == nil {
			w.t.Error("assignment without a strategy")
		}
		if b := q.GetRateLimitStrategy().GetTokenBucket(); b != nil {
			every := b.GetFillInterval().AsDuration()
			if b.GetMaxTokens() == 0 || b.GetTokensPerFill().GetValue() == 0 || every < time.Second || every%time.Second != 0 {
				w.t.Errorf("token bucket: %v, want positive numbers and whole seconds", b)
			}
		}
	}
}

// used returns the part of the limit that was admitted from now on for a time.
func (w *world) used(d time.Duration) float64 {
	before := w.admissions()
	rlqs.Pass(d)
	perSecond := float64(w.limit.Count()) / w.limit.Period().Seconds()
	return float64(w.admissions()-before) / (perSecond * d.Seconds())
}
