package pgstore

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// weir_decide decides most requests in one call. Its functions are twins of the rules in package
// algo. It does not decide reservations, changes of limits, and a row that has either; the code
// notDecided says so, and exchangeStates decides those.

const (
	notDecided  = 5
	answerWords = 6
	never       = -1 // the retry of a request that never fits
)

// twins are the algorithms of weir_decide.
var twins = []string{"token_bucket", "leaky_bucket", "interval_bucket", "limit_req", "fixed_window", "sliding_window"}

// simple reports whether weir_decide may decide o.
func (o *op) simple() bool {
	for i := range o.rs {
		r := &o.rs[i]
		if r.Verb > weir.Return || len(r.From) > 0 || !slices.Contains(twins, r.Limit.Spec().Rule.Name()) {
			return false
		}
		if !r.At.IsZero() && dated(r.Limit) {
			return false // weir_fixed_window does not know where the window of the charge began
		}
	}
	return true
}

// dated reports whether the params of a limit depend on the time: the windows of a calendar.
func dated(l weir.Limit) bool { return l.Period() == 0 }

// A batchCall has the arguments of weir_decide for several ops.
type batchCall struct {
	names, rules, named, algorithms, params, starts, requests, sizes array
}

// newBatchCall encodes ops.
func (s *Store) newBatchCall(ops []*op, clock int64) *batchCall {
	var names []string
	for _, o := range ops {
		for i := range o.rs {
			names = append(names, s.stateName(o.rs[i].Key, o.rs[i].Limit))
		}
	}
	rows := slices.Compact(slices.Sorted(slices.Values(names)))
	var c batchCall
	for _, name := range rows {
		c.names.text(name)
	}
	if clock == 0 {
		clock = time.Now().UnixMicro()
	}
	limits, numbers := map[weir.Limit]int64{}, int64(0)
	limit := func(l weir.Limit) int64 {
		if i, ok := limits[l]; ok {
			return i
		}
		limits[l] = int64(len(limits) + 1)
		rule := l.Spec().Rule
		optional(&c.rules, ruleText(l))
		c.named.boolean(l.Spec().Named)
		c.algorithms.text(rule.Name())
		c.starts.number(numbers)
		for _, p := range rule.Params(clock) {
			c.params.number(p)
			numbers++
		}
		return limits[l]
	}
	at := 0
	for _, o := range ops {
		c.sizes.number(int64(len(o.rs)))
		for i := range o.rs {
			r := &o.rs[i]
			k, _ := slices.BinarySearch(rows, names[at])
			at++
			c.requests.number(int64(k + 1))
			c.requests.number(limit(r.Limit))
			c.requests.number(int64(r.Verb))
			c.requests.number(r.N)
			c.requests.number(chargedAt(r))
		}
	}
	c.starts.number(numbers)
	return &c
}

// chargedAt returns the instant of the charge that a request gives back; 0 if it names none.
func chargedAt(r *weir.Request) int64 {
	if r.Verb != weir.Return || r.At.IsZero() {
		return 0
	}
	return max(1, r.At.UnixMicro())
}

// decide decides ops by weir_decide, each all or nothing.
func (s *Store) decide(ops []*op) {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.Timeout)
	defer cancel()
	for _, o := range ops {
		o.Progress.Sent()
	}
	clock, err := s.config.now()
	var answer []int64
	if err == nil {
		answer, err = s.callDecide(ctx, s.newBatchCall(ops, clock), clock)
	}
	n := 1
	for _, o := range ops {
		n += answerWords * len(o.rs)
	}
	if err == nil && len(answer) != n {
		err = fmt.Errorf("weir_decide: got %d numbers, want %d", len(answer), n)
	}
	at := 1
	for _, o := range ops {
		if err != nil {
			o.Err = unavailable(err)
			continue
		}
		o.Progress.Replied()
		o.read(answer[at:], answer[0])
		at += answerWords * len(o.rs)
	}
}

func (s *Store) callDecide(ctx context.Context, c *batchCall, clock int64) (answer []int64, err error) {
	var text string
	err = call(ctx, func() error {
		return s.db.QueryRowContext(ctx, "SELECT weir_decide($1, $2, $3, $4, $5, $6, $7, $8, $9)::text", clock, c.names.String(), c.rules.String(),
			c.named.String(), c.algorithms.String(), c.params.String(), c.starts.String(), c.requests.String(), c.sizes.String()).Scan(&text)
	})
	if err != nil {
		return nil, err
	}
	return parseNumbers(text)
}

// read sets the decisions of o from the numbers of its requests.
func (o *op) read(answer []int64, now int64) {
	o.ok = true
	for i := range o.rs {
		a := answer[answerWords*i:]
		if a[0] == notDecided {
			o.undecided = true
			return
		}
		r := algo.Result{OK: a[0] == 1, Granted: a[1], Balance: a[2], Retry: a[3], Reset: a[4], Delay: a[5]}
		if r.Retry == never {
			r.Retry = math.MaxInt64
		}
		o.ds[i] = o.rs[i].Limit.Spec().Decision(r, now)
		o.ok = o.ok && r.OK
	}
}
