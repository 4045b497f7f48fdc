package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/simulate/redismodel"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/redisstore"
)

// Verbs of the script that only the store sends.
const verbRetract weir.Verb = 9

// A run is one run of the script: requests that it decided, in order.
type run struct {
	at    int64         // µs, by the clock of the servers
	when  time.Duration // in virtual time
	due   time.Duration // when its writes reach the replica of the shard
	shard int
	mode  int64
	rs    []weir.Request // without those that were not decided
	reset bool           // an evicted key in place of requests
	slot  int            // of the keys in a cluster
}

// A charge is a change of one state that the script made.
type charge struct {
	key   string
	limit weir.Limit
	verb  weir.Verb
	n     int64 // charged; negative if returned
	at    int64
	when  time.Duration
	id    string
	ttl   time.Duration
	node  int
	used  bool // a client got this decision
	ok    bool
	lost  bool // a failover lost it
	side  int  // the split whose losing primary decided it, from 1; 0: none
	run   *run
}

// A recorder sees every run of the script, and compares it with the memory store.
type recorder struct {
	world      *world
	clock      func() time.Time      // of the servers
	limits     map[string]weir.Limit // by limitName
	quotas     map[string]*quota     // by key
	shards     int
	main       *history
	losing     *history // of the former primary, while there are two
	splits     []time.Duration
	refNow     int64
	charges    []*charge
	decisions  int
	violations []string
	justified  map[string][]allowance           // by state
	seen       map[string][]sight               // by state
	gave       map[string]map[int]time.Duration // by key and node: the last return of tokens
	canceled   func(id string) bool             // whether the request that made a reservation was canceled
	ctx        context.Context
	steps      []sight // of the clock
	stepped    bool    // the clock was set
	setBack    bool    // the clock was set back
}

// A history has the runs that made the state of the servers, and that state.
type history struct {
	log []*run
	ref *memstore.Store
}

// An allowance adds tokens to the bound of a state, because of a fault.
type allowance struct {
	from, to time.Duration // when it can be used
	n        int64
}

func newRecorder(w *world, limits []weir.Limit, shards int) *recorder {
	r := &recorder{world: w, limits: map[string]weir.Limit{}, quotas: map[string]*quota{}, shards: shards, justified: map[string][]allowance{}, seen: map[string][]sight{},
		gave: map[string]map[int]time.Duration{"": {-1: -time.Hour}}, ctx: context.Background()}
	for _, l := range limits {
		r.limits[limitName(l)] = l
	}
	r.refNow = time.Now().UnixMicro()
	r.main = &history{}
	r.restart()
	return r
}

func (r *recorder) violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.world.logf("VIOLATION %s", text)
	if len(r.violations) < 20 {
		r.violations = append(r.violations, text)
	}
}

// restart gives the memory store the state that the log leaves.
func (r *recorder) restart() {
	h := r.main
	if h.ref != nil {
		h.ref.Close()
	}
	ref, err := memstore.New(memstore.Config{Clock: func() int64 { return r.refNow }})
	if err != nil {
		panic(err)
	}
	h.ref = ref
	now := r.refNow
	for _, x := range h.log {
		r.refNow = x.at
		r.decide(h, x)
	}
	r.refNow = now
}

// Modes of the script.
const (
	modeEach   = 0
	modeAll    = 1
	modeDryRun = 2
	modeCarry  = 3
	modeGroups = 4
)

// ran records a run of the script.
func (r *recorder) ran(s *shard, server *redismodel.Server, node int, cmd redisstore.Command, items []string) {
	if len(cmd.Args) == 1 {
		if err := r.ranTakes(s, server, node, cmd, items); err != nil {
			r.violate("cannot read a call: %v", err)
		}
		return
	}
	mode, rs, err := r.parse(cmd)
	if err != nil {
		r.violate("cannot read a call: %v", err)
		return
	}
	if len(items) != len(rs) {
		r.violate("%d replies to %d requests", len(items), len(rs))
		return
	}
	if mode != modeGroups {
		r.record(s, server, node, slotOf(cmd.Keys[0]), mode, rs, items)
		return
	}
	for _, n := range numbers(cmd.Args[len(cmd.Args)-1]) {
		r.record(s, server, node, slotOf(cmd.Keys[0]), modeAll, rs[:n], items[:n])
		rs, items = rs[n:], items[n:]
	}
	if len(rs) > 0 {
		r.violate("%d requests are in no group", len(rs))
	}
}

// record records the requests of a run, or of one group in it, and their replies.
func (r *recorder) record(s *shard, server *redismodel.Server, node, slot int, mode int64, rs []weir.Request, items []string) {
	x := &run{at: s.cluster.clock(), when: r.world.now().Truncate(time.Microsecond), due: s.due, shard: s.index, mode: mode, slot: slot}
	var as []answer
	all, decided := true, true
	for i, text := range items {
		a := parseAnswer(text)
		r.world.logf("node %d shard %d mode %d %s -> %+v", node, s.index, mode, show(&rs[i]), a)
		if a.err != "" {
			r.violate("%s: %s", show(&rs[i]), a.err)
		}
		all = all && (a.code == 1 || a.code == 4)
		decided = decided && a.code <= 1 || a.code == 4
		if a.code == 3 && mode == modeEach {
			continue // the store asks again, with the keys of reservations
		}
		x.rs, as = append(x.rs, rs[i]), append(as, a)
	}
	if mode == modeDryRun || mode == modeAll && !decided || mode == modeCarry && !decided {
		return
	}
	r.decisions += len(as)
	r.refNow = x.at
	h, side := r.main, 0
	if server == s.former && r.losing != nil {
		h, side = r.losing, len(r.splits)
	}
	want := r.decide(h, x)
	h.log = append(h.log, x)
	for i := range as {
		if mode == modeCarry {
			continue
		}
		if got := as[i].text(&x.rs[i]); got != want[i] && !r.setBack {
			r.violate("exact: %s on shard %d: the script decided %s, the memory store %s", show(&x.rs[i]), s.index, got, want[i])
		}
		r.charged(x, node, side, &x.rs[i], &as[i], mode == modeEach || all)
	}
}

// charged records what a request changed.
func (r *recorder) charged(x *run, node, side int, q *weir.Request, a *answer, kept bool) {
	name := r.nameOf(q.Key, q.Limit)
	r.decided(node, side, x, q)
	wrote := kept && (a.code == 1 || a.code == 4) && q.Verb != weir.Peek
	r.seen[name] = append(r.seen[name], sight{x.when, x.at, wrote, side})
	c := &charge{key: q.Key, limit: q.Limit, verb: q.Verb, at: a.now, when: x.when, id: q.ID, ttl: q.TTL, node: node, side: side, lost: side > 0, run: x, ok: a.code == 1 || a.code == 4}
	if !c.ok || !kept {
		return
	}
	switch refund := x.mode == modeAll && (q.Verb == weir.Return || q.Verb == verbRetract); {
	case refund || q.ID != "" && r.canceled(q.ID):
		r.give(q.Key, -1)
	case q.Verb >= weir.Return && q.Verb != weir.Reserve:
		r.give(q.Key, node)
	}
	switch q.Verb {
	case weir.Take, weir.TakeUpTo, weir.Charge:
		c.n = a.granted
	case weir.Reserve:
		if a.code == 1 {
			c.n = a.granted
		}
	case weir.Return:
		c.n = -q.N
	case verbRetract:
		c.n = -1
	}
	r.charges = append(r.charges, c)
}

// decide makes the memory store decide the requests of a run, and returns the decisions.
func (r *recorder) decide(h *history, x *run) []string {
	ctx := context.Background()
	rs := slices.Clone(x.rs)
	ds := make([]weir.Decision, len(rs))
	errs := make([]error, len(rs))
	for i := range rs {
		if rs[i].Verb == verbRetract {
			rs[i].Verb, rs[i].N = weir.Cancel, 0
		}
	}
	if x.mode == modeCarry {
		// A batch that is denied keeps what precedes the decisions.
		rs, ds = append(rs, weir.Request{Key: "denied", Limit: onceLimit, N: onceLimit.Capacity() + 1}), append(ds, weir.Decision{})
		if _, err := h.ref.DoAll(ctx, rs, ds); err != nil {
			r.violate("the memory store fails: %v", err)
		}
		return make([]string, len(x.rs))
	}
	if x.mode == modeAll && !slices.ContainsFunc(x.rs, func(q weir.Request) bool { return q.Verb == verbRetract }) {
		if _, err := h.ref.DoAll(ctx, rs, ds); err != nil {
			r.violate("the memory store fails: %v", err)
		}
	} else {
		for i := range rs {
			ds[i], errs[i] = h.ref.Do(ctx, rs[i])
		}
	}
	out := make([]string, len(rs))
	for i := range rs {
		switch {
		case x.rs[i].Verb == verbRetract:
			out[i] = "retracted"
		case errors.Is(errs[i], weir.ErrNoReservation):
			out[i] = "unknown"
		case errs[i] != nil:
			out[i] = errs[i].Error()
		default:
			out[i] = decisionText(ds[i])
		}
	}
	return out
}

func decisionText(d weir.Decision) string {
	retry := d.RetryAfter.Microseconds()
	if d.RetryAfter == weir.Never {
		retry = -1
	}
	return fmt.Sprintf("ok %v granted %d remaining %d retry %d reset %d", d.OK, d.Granted, d.Remaining, retry, d.ResetAfter.Microseconds())
}

// lose drops the runs that a failover lost: those on a shard whose writes had not arrived.
func (r *recorder) lose(s *shard, owns func(slot int) bool) (runs int) {
	r.give("", -1)
	now := r.world.now()
	lost := map[*run]bool{}
	r.main.log = slices.DeleteFunc(r.main.log, func(x *run) bool {
		if (r.shards == 1 || owns(x.slot)) && x.due > now {
			lost[x] = true
		}
		return lost[x]
	})
	for _, c := range r.charges {
		if lost[c.run] {
			c.lost = true
			if c.n > 0 {
				r.allow(c.key, c.limit, c.n)
			}
		}
	}
	if len(lost) > 0 {
		r.refNow = s.cluster.clock()
		r.restart()
	}
	return len(lost)
}

// split keeps the history for the former primary of a shard, and drops the runs that the new
// one lacks.
func (r *recorder) split(s *shard, owns func(slot int) bool) (lost int) {
	r.splits = append(r.splits, r.world.now().Truncate(time.Microsecond))
	r.losing = &history{log: slices.Clone(r.main.log), ref: r.main.ref}
	r.main.ref = nil
	if lost = r.lose(s, owns); lost == 0 {
		r.refNow = s.cluster.clock()
		r.restart()
	}
	return lost
}

// heal drops the history of the former primary. It returns the number of its own charges.
func (r *recorder) heal() (lost int) {
	r.give("", -1)
	r.losing.ref.Close()
	r.losing = nil
	for _, c := range r.charges {
		if c.side == len(r.splits) {
			lost++
		}
	}
	return lost
}

// moved gives the runs of a slot the time at which its keys reach the replica of another shard.
func (r *recorder) moved(slot int, to *shard) {
	for _, x := range r.main.log {
		if x.slot == slot {
			x.shard, x.due = to.index, to.due
		}
	}
}

// evict resets the state of a key.
func (r *recorder) evict(s *shard, key string, limit weir.Limit) {
	r.refNow = s.cluster.clock()
	x := &run{at: r.refNow, when: r.world.now().Truncate(time.Microsecond), due: s.due, shard: s.index, slot: slotOf("{" + key + "}"),
		rs: []weir.Request{{Verb: weir.Reset, Key: key, Limit: limit}}, reset: true}
	r.main.log = append(r.main.log, x)
	r.decide(r.main, x)
	name := r.nameOf(key, limit)
	r.seen[name] = append(r.seen[name], sight{x.when, -1, false, 0})
	r.give("", -1)
}

// allow adds to the bound of a state from now on.
func (r *recorder) allow(key string, limit weir.Limit, n int64) {
	name := r.nameOf(key, limit)
	now := r.world.now()
	r.justified[name] = append(r.justified[name], allowance{now, now, n})
}

// nameOf names a state for the bounds. All states of a quota have one name.
func (r *recorder) nameOf(key string, limit weir.Limit) string {
	if r.quotas[key] != nil {
		return key
	}
	return key + " " + limit.String()
}

func show(q *weir.Request) string {
	s := fmt.Sprintf("%v %d %s of %s", q.Verb, q.N, q.Key, q.Limit)
	if q.Verb == verbRetract {
		s = "retract" + strings.TrimPrefix(s, q.Verb.String())
	}
	if q.ID != "" {
		s += " id " + q.ID
	}
	return s
}

// step records that the clock of the servers was set.
//
// After a step back the memory store knows more than the script: the last instant of all keys,
// not of one. The decisions then differ by design, and oracle 1 ends.
func (r *recorder) step(d time.Duration) {
	r.stepped = true
	r.steps = append(r.steps, sight{when: r.world.now(), clock: r.clock().UnixMicro()})
	r.give("", -1)
	r.setBack = r.setBack || d < 0
}
