package simulate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
)

// The limits of shared keys, one for each, and those of the policies.
var (
	sharedLimits = limitsOf("20/s burst 20", "5/s burst 9", "30/s fixed_window", "40/m sliding_log", "24/2s sliding_window", "15/s leaky_bucket burst 8", "9 concurrency lease 2s")
	onceLimit    = weir.MustLimit("100/h")
	policyLimits = [][]weir.Limit{
		limitsOf("30/s burst 12", "600/m fixed_window"),
		limitsOf("10/s burst 9"),
		limitsOf("25/s burst 15", "500/m sliding_log"),
	}
)

func limitsOf(texts ...string) (ls []weir.Limit) {
	for _, t := range texts {
		ls = append(ls, weir.MustLimit(t))
	}
	return ls
}

func allLimits(set *policy.Set) []weir.Limit {
	ls := append(append([]weir.Limit{}, sharedLimits...), onceLimit)
	for _, p := range set.Policies() {
		ls = append(ls, p.Config().Limits...) // they have names
	}
	for _, c := range chains {
		ls = append(ls, c...)
		for _, l := range c {
			ls = append(ls, l.Named("quota"))
		}
	}
	return ls
}

// A request is one request of a client.
type request struct {
	id, node, client int
	kind             string
	begun, ended     time.Duration
	rs               []weir.Request
	ds               []weir.Decision
	ok               bool
	err              error
	outcome          enforce.Outcome
	policy, user     string
	settle           error // of the end of a reservation
	canceled         bool
}

// A workload has the clients of all nodes.
type workload struct {
	world     *world
	nodes     []*node
	faults    *faults
	record    *recorder
	shared    []string // keys
	quotas    []*quota
	done      []*request
	byID      map[int]*request
	last      int
	stopped   bool
	think     time.Duration
	counts    map[string]int
	open      int
	quiet     time.Duration // when the faults ended
	exactFrom time.Duration
}

// limitOf returns the limit of a shared key.
func limitOf(key string) weir.Limit {
	var i int
	fmt.Sscanf(key, "hot%d", &i)
	return sharedLimits[i%len(sharedLimits)]
}

// start schedules the requests of a client.
func (l *workload) start(node, client int) {
	l.world.after(l.world.between(0, l.think), func() { l.next(node, client) })
}

// next begins the next request of a client.
func (l *workload) next(node, client int) {
	if l.stopped {
		return
	}
	w := l.world
	l.last++
	q := &request{id: l.last, node: node, client: client, begun: w.now()}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), requestID{}, q.id))
	if w.chance(0.05) {
		w.after(w.between(time.Microsecond, 100*time.Millisecond), func() {
			if q.ended == 0 {
				q.canceled = true
				cancel()
			}
		})
	}
	run := l.choose(q)
	l.byID[q.id] = q
	l.open++
	go func() {
		run(ctx)
		w.pass(q.id, "done", func() {
			cancel()
			l.open--
			q.ended = w.now()
			l.done = append(l.done, q)
			l.finished(q)
			w.after(w.between(time.Microsecond, l.think), func() { l.next(node, client) })
		})
	}()
}

// choose selects what a request does, and returns the function that does it.
func (l *workload) choose(q *request) func(context.Context) {
	w, x := l.world, l.nodes[q.node]
	once := func(i int) weir.Request {
		return weir.Request{Key: fmt.Sprintf("once%d.%d", q.id, i), Limit: onceLimit, N: 1 + w.rng.Int64N(3)}
	}
	shared := func() weir.Request {
		if len(l.quotas) > 0 && w.chance(0.4) {
			return pick(w, l.quotas).request(q.node, 1+w.rng.Int64N(2))
		}
		key := pick(w, l.shared)
		r := weir.Request{Key: key, Limit: limitOf(key), N: 1 + w.rng.Int64N(2)}
		if r.Limit.IsConcurrency() {
			r.Verb, r.ID, r.TTL = weir.Reserve, fmt.Sprintf("slot%d", q.id), w.between(50*time.Millisecond, 2*time.Second)
		}
		return r
	}
	switch p := w.rng.Float64(); {
	case p < 0.35:
		q.kind = "policy"
		q.policy = pick(w, []string{"local", "closed", "open"})
		q.user = pick(w, []string{"ann", "bob"})
		a := attributes{q.policy, q.user}
		return func(ctx context.Context) {
			var p enforce.Admission
			q.outcome = x.enforcer.Enter(ctx, a, &p)
			q.err = p.Err()
			for _, c := range p.Charges() {
				q.ds = append(q.ds, p.Decisions(&c)...)
			}
			if q.outcome.Passes() {
				p.Exit(enforce.Result{Status: 200})
			}
		}
	case p < 0.6:
		q.kind = "take"
		r := shared()
		if w.chance(0.3) {
			r = once(0)
		} else if w.chance(0.1) && !r.Limit.IsConcurrency() {
			r.Verb = pick(w, []weir.Verb{weir.Peek, weir.TakeUpTo})
		}
		if l.record.quotas[r.Key] != nil {
			return l.single(q, x.front, r)
		}
		return l.single(q, x.fallback, r)
	case p < 0.85:
		q.kind = "batch"
		q.rs = []weir.Request{once(0), shared(), once(1)}
		if w.chance(0.3) {
			q.rs = append(q.rs, shared())
			if q.rs[3].Key == q.rs[1].Key {
				q.rs = q.rs[:3]
			}
		}
		q.ds = make([]weir.Decision, len(q.rs))
		return func(ctx context.Context) { q.ok, q.err = x.front.DoAll(ctx, q.rs, q.ds) }
	default:
		q.kind = "reserve"
		r := shared()
		r.Verb, r.ID, r.TTL = weir.Reserve, fmt.Sprintf("id%d", q.id), w.between(100*time.Millisecond, 3*time.Second)
		hold, settle := w.between(time.Millisecond, 400*time.Millisecond), r
		settle.Verb, settle.N = weir.Commit, w.rng.Int64N(3)
		if w.chance(0.3) || r.Limit.IsConcurrency() {
			settle.Verb, settle.N = weir.Cancel, 0
		}
		abandon := w.chance(0.2)
		return func(ctx context.Context) { l.reserve(ctx, q, x, r, settle, hold, abandon) }
	}
}

func (l *workload) single(q *request, store weir.Store, r weir.Request) func(context.Context) {
	q.rs = []weir.Request{r}
	return func(ctx context.Context) {
		d, err := store.Do(ctx, r)
		q.ds, q.ok, q.err = []weir.Decision{d}, d.OK, err
	}
}

// reserve makes a reservation and settles it. It repeats a call without a reply, which is safe
// for reservations.
func (l *workload) reserve(ctx context.Context, q *request, x *node, r, settle weir.Request, hold time.Duration, abandon bool) {
	ask := func(r weir.Request) (d weir.Decision, err error) {
		for range 3 {
			if d, err = x.front.Do(ctx, r); err == nil || !errors.Is(err, weir.ErrUnavailable) || ctx.Err() != nil {
				return d, err
			}
			<-time.After(time.Duration(7+q.id%13) * time.Millisecond)
			l.world.pass(q.id, "retry", nil)
		}
		return d, err
	}
	d, err := ask(r)
	q.rs, q.ds, q.ok, q.err = []weir.Request{r}, []weir.Decision{d}, d.OK, err
	if err != nil || !d.OK || abandon {
		return
	}
	<-time.After(hold)
	reserved, old := l.world.now()-hold, false
	l.world.pass(q.id, "settle", func() {
		if quota := l.record.quotas[r.Key]; quota != nil {
			now := quota.request(q.node, settle.N)
			settle.Limit, settle.From = now.Limit, now.From
			old = quota.current[q.node] < len(quota.versions)-1
		}
	})
	_, q.settle = ask(settle)
	l.world.pass(q.id, "settled", func() { l.settled(q, settle, reserved, old, q.settle) })
}

// finished checks what can be checked when a request ends.
func (l *workload) finished(q *request) {
	w := l.world
	what := "error"
	degraded := weir.FailMode("")
	for _, d := range q.ds {
		if d.Degraded != "" {
			degraded = d.Degraded
		}
	}
	overloaded := errors.Is(q.err, weir.ErrOverloaded)
	switch {
	case overloaded:
		what = "overloaded"
		if q.ok || q.kind == "policy" && q.outcome.Passes() {
			l.record.violate("request %d of node %d is admitted because the node is overloaded", q.id, q.node)
		}
	case q.kind == "policy" && q.outcome == enforce.FailedOpen:
		what = "admitted, open"
	case q.kind == "policy" && q.outcome == enforce.FailedClosed:
		what = "refused, closed"
	case q.err != nil:
	case q.kind == "policy" && q.outcome.Passes() || q.kind != "policy" && q.ok:
		what = strings.TrimSuffix("admitted, "+string(degraded), ", ")
	default:
		what = strings.TrimSuffix("denied, "+string(degraded), ", ")
	}
	l.counts[what]++
	if took := q.ended - q.begun; q.kind != "reserve" && took > longest {
		l.record.violate("overload: request %d of node %d took %v, want at most %v", q.id, q.node, took, longest)
	}
	if what == "denied" && len(q.rs) == 1 && !q.canceled {
		l.checkDenied(q)
	}
	w.logf("request %d node %d %s %s%s: %s %v", q.id, q.node, q.kind, q.policy, keysOf(q), what, q.err)
	for i, d := range q.ds {
		w.logf("  %d %s at %d", i, decisionText(d), d.At.UnixMicro())
	}
	if l.exactFrom != 0 && q.begun > l.exactFrom && !q.canceled && (what == "error" && !errors.Is(q.err, weir.ErrNoReservation) || strings.Contains(what, ",")) {
		l.record.violate("recovery: request %d of node %d: %s (%v) %v after the faults ended", q.id, q.node, what, q.err, q.begun-l.quiet)
	}
	if what == "admitted, open" && l.faults.calm(q.node, q.begun-1200*time.Millisecond, q.ended) {
		l.record.violate("request %d of node %d is admitted without a decision, and no fault hit the store", q.id, q.node)
	}
	if degraded == "" && q.err == nil && (q.ok || q.kind == "policy" && q.outcome == enforce.Admitted) {
		for i, d := range q.ds {
			if i < len(q.rs) && q.rs[i].Verb != weir.Take && q.rs[i].Verb != weir.TakeUpTo {
				continue
			}
			l.record.claim(q, d)
		}
	}
}

// canceled reports whether the request that made a reservation was canceled.
func (l *workload) canceled(id string) bool {
	var n int
	fmt.Sscanf(strings.TrimLeft(id, "idslot"), "%d", &n)
	return l.byID[n] != nil && l.byID[n].canceled
}

func keysOf(q *request) string {
	var b strings.Builder
	for _, r := range q.rs {
		fmt.Fprintf(&b, " %s:%d", r.Key, r.N)
	}
	return b.String()
}
