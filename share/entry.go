package share

import (
	"hash/fnv"
	"math/rand/v2"
	"sync"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/share/internal/parts"
)

// An entry is a key under a limit, as a process knows it. One exchange at a time changes its part.
type entry struct {
	key   string
	limit *parts.Limit
	name  string // of the row
	id    uint64 // of the holder
	hash  uint64
	lane  uint64 // selects the queue of its exchanges

	mu      sync.Mutex
	terms   terms      // of the last exchange
	own     parts.Bank // the share
	until   int64      // the local instant at which the lease ends
	since   int64      // the local instant of the last measurement
	asked   int64      // tokens since then
	squares float64    // the sum of the squares of their numbers
	last    int64      // the local instant of the last request
	longest int64      // µs between two requests since then
	gap     int64      // µs, before then
	denied  int64      // a denial of so many tokens holds; 0 for none
	repeats int64      // until this local instant
	retry   int64      // the local instant at which the remainder may admit them
	took    int64      // µs, by the last exchange
	call    int64      // µs, by the last load
	floor   int64      // the latest instant of the row: the share was not free before
	queued  bool       // a turn is in the queue
	removed bool       // it is not in the table
	ops     int        // that use the entry

	listed   bool    // the row has the holder
	look     int64   // the local instant from which the row is read again
	wait     int64   // µs until then
	renew    int64   // the local instant from which the lease is renewed
	demand   float64 // units of a rate
	measured int     // measurements of the demand; 8 for more
	others   float64 // what other holders want
	rivals   float64 // their demand
	roots    float64 // the sum of its square roots
	known    int64   // the local instant before the row with these was read
	starving bool    // another holder has less than its demand, although the limit suffices
	starved  bool    // the share alone has denied a request
	pull     bool    // the next exchange takes tokens for an empty share
	idle     int     // ticks without a request
	debt     bool    // the remainder owes tokens, so the share goes back
	local    int64   // decisions without a call

	held  parts.Part // the last part, also after the lease
	alone parts.Bank // a part like held that decides after the lease

	// Only exchanges use these, one at a time.
	seq     uint64 // of the last write
	watched []watched
}

// A watched is a write of another holder that this process has seen. If the holder has not written
// for its lease since, it no longer uses its share. So the end of a lease depends on the
// rate of a clock, and on no clock of the ledger, which may jump.
type watched struct {
	id, seq uint64
	since   int64 // local
}

func newEntry(key string, d *parts.Limit, hash uint64) *entry {
	name := rowName(key, d.Limit)
	h := fnv.New64a()
	h.Write([]byte(name))
	return &entry{key: key, limit: d, name: name, id: rand.Uint64(), hash: hash, lane: h.Sum64()}
}

// now returns the instant by which the state of the share is counted. It requires mu.
func (e *entry) now(m moment) int64 {
	if e.limit.Labels {
		return e.at(m)
	}
	return m.local
}

// at returns the instant of a decision of the share, by the ledger. It requires mu.
func (e *entry) at(m moment) int64 { return max(m.ledger, e.floor) }

// live reports whether the share may be used. It requires mu.
func (e *entry) live(m moment) bool { return e.own.Rule != nil && m.local < e.until }

// ask returns the request for the state of the share.
func (e *entry) ask(op algo.Op, n int64, r *weir.Request, m moment) algo.Ask {
	a := algo.Ask{Op: op, N: n, Now: e.now(m)}
	if op == algo.Return && !r.At.IsZero() {
		if a.At = max(1, r.At.UnixMicro()); !e.limit.Labels {
			a.At = max(1, a.At-e.at(m)+m.local)
		}
	}
	return a
}

// measure adds a request to the demand. It requires mu.
func (e *entry) measure(r *weir.Request, m moment) {
	if r.Verb < weir.Return && r.Verb != weir.Peek {
		e.asked += r.N
		e.squares += float64(r.N) * float64(r.N)
		e.longest = max(e.longest, m.local-e.last)
		e.last = m.local
	}
}

// decide decides a request by the share, or by a denial that holds. It returns false if only the
// ledger can decide.
func (e *entry) decide(r *weir.Request, m moment, d *weir.Decision) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.measure(r, m)
	return e.decideMeasured(r, m, d)
}

// decideMeasured is decide for a request whose demand is measured already. It requires mu.
func (e *entry) decideMeasured(r *weir.Request, m moment, d *weir.Decision) bool {
	if r.Verb > weir.Return {
		return false
	}
	var res algo.Result
	live := e.live(m)
	if live {
		op := algo.Op(r.Verb)
		switch r.Verb {
		case weir.Charge, weir.TakeUpTo:
			op = algo.Take // all, or the ledger decides
		}
		if r.Verb == weir.Peek || r.N > 0 {
			res = e.own.Do(e.ask(op, r.N, r, m))
		} else {
			res = e.own.Do(e.ask(algo.Peek, 0, r, m))
		}
		if res.OK {
			e.local++
			if e.limit.Labels {
				e.floor = e.at(m)
			}
			r.Limit.Spec().Fill(d, &res, e.at(m))
			return true
		}
	}
	if live && r.Verb != weir.Charge && r.N <= e.own.Size && e.exhausted(m) {
		if r.Verb == weir.TakeUpTo {
			res = e.own.Do(e.ask(algo.TakeUpTo, r.N, r, m))
		}
		if res.OK && e.limit.Labels {
			e.floor = e.at(m)
		}
		e.starved = true
		e.local++
		r.Limit.Spec().Fill(d, &res, e.at(m))
		return true
	}
	if e.denied == 0 || r.N < e.denied || r.Verb == weir.Charge || r.Verb == weir.TakeUpTo && e.denied > 1 {
		return false
	}
	if m.local >= e.repeats {
		e.repeats = m.local + e.took // others repeat the denial while this request asks
		return false
	}
	retry := max(1, e.retry-m.local)
	if live && res.Retry < retry {
		retry = max(1, res.Retry)
	}
	res.Retry, res.OK, res.Granted = retry, false, 0
	res.Reset = max(res.Reset, retry)
	e.local++
	r.Limit.Spec().Fill(d, &res, e.at(m))
	return true
}

// decideAlone decides a request by a live share without the ledger, which is unavailable. It returns
// false without a live share.
func (e *entry) decideAlone(r *weir.Request, m moment, d *weir.Decision) bool {
	if r.Verb > weir.Return || r.Verb == weir.Charge {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.live(m) {
		return false
	}
	res := e.own.Do(e.ask(algo.Op(r.Verb), r.N, r, m))
	if res.OK && e.limit.Labels {
		e.floor = e.at(m)
	}
	if !res.OK && r.N <= e.limit.Capacity() { // the share may change when its lease ends
		res.Retry = max(1, min(res.Retry, e.until-m.local))
	}
	e.local++
	r.Limit.Spec().Fill(d, &res, e.at(m))
	return true
}

// drop forgets the share. It requires mu.
func (e *entry) drop() { e.own, e.until = parts.Bank{}, 0 }
