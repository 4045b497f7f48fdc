package respd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/redcon"

	"github.com/floodweir/weir"
)

// A cellError is an error in redis-cell's words, which have no code before them.
type cellError string

func (e cellError) Error() string { return "Cell error: Store error: " + string(e) }

const (
	errUsage    = cellError("Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]")
	errZero     = cellError("Zero rates are not supported")
	errNegative = cellError("Negative rates are not supported")
	errKey      = cellError("Empty keys are not supported")
)

// maxShown is how much of a client's text an error repeats.
const maxShown = 128

// An ask is one CL.THROTTLE on its way.
type ask struct {
	request weir.Request
	hash    uint64 // of the key
	burst   int64  // max_burst

	err      error // nothing was asked, or there was no decision
	without  bool  // a bucket without room, which no store has to be asked about
	decision weir.Decision
	next     int // of the same lane; 0 is none
}

// ask reads a command, with its name.
func (s *Server) ask(args [][]byte) (a ask) {
	if len(args) != 5 && len(args) != 6 {
		a.err = errUsage
		return a
	}
	quantity := int64(1)
	var r rate
	for i, to := range []*int64{&r.burst, &r.count, &r.period, &quantity} {
		if i+2 >= len(args) {
			break
		}
		n, err := strconv.ParseInt(string(args[i+2]), 10, 64) // which accepts what Rust's parse does
		if err != nil {
			a.err = cellError("Couldn't parse as integer: " + shown(args[i+2]))
			return a
		}
		*to = n
	}
	a.burst = r.burst
	if a.err = r.check(); a.err != nil {
		return a
	}
	if len(args[1]) == 0 {
		a.err = errKey
		return a
	}
	a.request.Key = string(args[1])
	switch {
	case quantity > 0:
		a.request.N = quantity
	case quantity == 0:
		a.request.Verb = weir.Peek
	default:
		a.request.Verb, a.request.N = weir.Return, -max(quantity, -math.MaxInt64)
	}
	if a.without = r.burst < 0; a.without {
		return a
	}
	if a.request.Limit, a.err = s.rates.limit(r); a.err != nil {
		return a
	}
	a.hash = s.formers.hash(a.request.Key)
	return a
}

// check reports what redis-cell refuses, and what it computes nonsense for.
func (r rate) check() error {
	const second = int64(time.Second)
	switch {
	case r.count == 0 || r.period == 0:
		return errZero
	case r.count < 0 || r.period < 0:
		return errNegative
	case r.burst == math.MaxInt64:
		return cellError("max_burst: want less than " + strconv.FormatInt(math.MaxInt64, 10))
	case r.period > math.MaxInt64/second:
		return cellError(fmt.Sprintf("period: want at most 100 years, got %d seconds", r.period))
	case r.period*second/r.count == 0:
		return errZero // less than a nanosecond for each
	}
	return nil
}

// limit is the limit of a rate, or why Weir could not keep it exactly.
func (r rate) limit() (weir.Limit, error) {
	l, err := weir.NewLimit(weir.TokenBucket{Count: r.count, Period: time.Duration(r.period) * time.Second, Burst: r.burst + 1})
	if err != nil {
		text := strings.TrimPrefix(err.Error(), "weir: limit: ")
		return weir.Limit{}, cellError(strings.TrimPrefix(text, weir.ErrInvalid.Error()+": "))
	}
	return l, nil
}

// decide asks the store.
func (s *Server) decide(ctx context.Context, a *ask) (took time.Duration) {
	if a.err != nil || a.without {
		return 0
	}
	r := &a.request
	if r.From = s.formers.from(a.hash, r.Limit); r.From != nil {
		r.Carry = weir.CarryAsIs
	}
	start := time.Now()
	a.decision, a.err = s.config.Store.Do(ctx, *r)
	took = time.Since(start)
	if s.config.Observe != nil {
		s.config.Observe(Event{Request: *r, Decision: a.decision, Err: a.err, Took: took})
	}
	switch {
	case a.err != nil:
		s.failed.Add(1)
		s.noDecision(a)
	case a.decision.OK:
		s.allowed.Add(1)
	default:
		s.limited.Add(1)
	}
	if a.err == nil && r.From != nil && r.Verb != weir.Peek {
		s.formers.carried(a.hash, r.Limit)
	}
	return took
}

// noDecision words what the client is told of a store that did not decide. What it
// said goes to the log.
func (s *Server) noDecision(a *ask) {
	s.logEvery("no decision", a.err)
	switch err := a.err; {
	case errors.Is(err, weir.ErrInvalid):
		a.err = cellError("The request is not valid")
	case errors.Is(err, weir.ErrFull):
		a.err = cellError("The store is full")
	default:
		a.err = cellError("The store is unavailable")
	}
}

// reply appends the answer to an ask: limited, limit, remaining, retry after and
// reset after.
func (a *ask) reply(b []byte) []byte {
	if a.err != nil {
		return redcon.AppendError(b, a.err.Error())
	}
	d := &a.decision
	limited, remaining, retry, reset := int64(0), d.Remaining, int64(-1), seconds(d.ResetAfter)
	switch {
	case a.without: // as redis-cell computes it for a key that is not there
		if a.request.Verb != weir.Return && a.request.N > a.burst+1 {
			limited = 1
		}
		remaining, reset = 0, 0
	case !d.OK:
		limited = 1
		if d.RetryAfter != weir.Never {
			retry = seconds(d.RetryAfter)
		}
	}
	b = redcon.AppendArray(b, 5)
	for _, n := range [...]int64{limited, a.burst + 1, remaining, retry, reset} {
		b = redcon.AppendInt(b, n)
	}
	return b
}

// seconds are rounded as redis-cell does it: up, but for less than a millisecond.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second >= time.Millisecond {
		s++
	}
	return s
}

// shown is the beginning of a client's text.
func shown(b []byte) string {
	if len(b) > maxShown {
		b = b[:maxShown]
	}
	return string(b)
}
