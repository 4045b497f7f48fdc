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
	"github.com/floodweir/weir/enforce"
)

// A cellError is an error with the text of redis-cell, without an error code.
type cellError string

func (e cellError) Error() string { return "Cell error: Store error: " + string(e) }

const (
	errUsage    = cellError("Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]")
	errZero     = cellError("Zero rates are not supported")
	errNegative = cellError("Negative rates are not supported")
	errKey      = cellError("Empty keys are not supported")
)

// maxShown is the maximum length of client text in an error, in bytes.
const maxShown = 128

// A throttleCall is one CL.THROTTLE command.
type throttleCall struct {
	request weir.Request // its Key is set by conn.nameKeys
	key     int          // length of the key
	burst   int64        // max_burst

	err          error // of the command or of the store
	zeroCapacity bool  // max_burst is negative: decided without the store
	decision     weir.Decision
	next         int // index plus one of the next call for the same goroutine; 0: none
}

// parseThrottle parses the arguments of a command, its name included, into a, which is zero.
func (s *Server) parseThrottle(a *throttleCall, args [][]byte) {
	if len(args) != 5 && len(args) != 6 {
		a.err = errUsage
		return
	}
	quantity := int64(1)
	var r rate
	for i, to := range [...]*int64{&r.burst, &r.count, &r.period, &quantity} {
		if i+2 >= len(args) {
			break
		}
		n, err := strconv.ParseInt(string(args[i+2]), 10, 64) // accepts the same numbers as redis-cell
		if err != nil {
			a.err = cellError("Couldn't parse as integer: " + shown(args[i+2]))
			return
		}
		*to = n
	}
	a.burst = r.burst
	if a.err = r.check(); a.err != nil {
		return
	}
	if len(args[1]) == 0 {
		a.err = errKey
		return
	}
	a.key = len(args[1])
	switch {
	case quantity > 0:
		a.request.N = quantity
	case quantity == 0:
		a.request.Verb = weir.Peek
	default:
		a.request.Verb, a.request.N = weir.Return, -max(quantity, -math.MaxInt64)
	}
	if a.zeroCapacity = r.burst < 0; !a.zeroCapacity {
		a.request.Limit, a.err = s.limits.limit(r)
	}
}

// check returns the errors of redis-cell, and errors for parameters where its arithmetic
// overflows.
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

// limit returns the limit of a rate. An error means that the limit cannot be exact.
func (r rate) limit() (weir.Limit, error) {
	l, err := weir.NewLimit(weir.TokenBucket{Count: r.count, Period: time.Duration(r.period) * time.Second, Burst: r.burst + 1})
	if err != nil {
		text := strings.TrimPrefix(err.Error(), "weir: limit: ")
		return weir.Limit{}, cellError(strings.TrimPrefix(text, weir.ErrInvalid.Error()+": "))
	}
	return l.Named(stateName), nil
}

// stateName names the only state of a key, as in redis-cell: a command with other parameters
// migrates it, whichever process sent the one before.
const stateName = "throttle"

// decide sends the request to the store. start is the time now; it returns that of the
// decision, or start if there was none to make.
func (s *Server) decide(ctx context.Context, a *throttleCall, start time.Time) (end time.Time) {
	if a.err != nil || a.zeroCapacity {
		return start
	}
	r := &a.request
	a.decision, a.err = s.config.Store.Do(ctx, *r)
	end = s.now()
	if s.config.Observe != nil {
		s.config.Observe(Event{Request: *r, Decision: a.decision, Err: a.err, Took: end.Sub(start)})
	}
	switch {
	case a.err != nil:
		s.failed.Add(1)
		s.storeError(a)
	case a.decision.OK:
		s.allowed.Add(1)
	default:
		s.limited.Add(1)
	}
	return end
}

// storeError logs the error of the store and replaces it by one for the client.
func (s *Server) storeError(a *throttleCall) {
	s.logOncePerSecond("no decision", a.err)
	switch err := a.err; {
	case errors.Is(err, weir.ErrInvalid):
		a.err = cellError("The request is not valid")
	case errors.Is(err, weir.ErrFull):
		a.err = cellError("The store is full")
	case errors.Is(err, weir.ErrOverloaded):
		a.err = cellError("The server is overloaded, retry after " + enforce.RetryAfter(err).String())
	default:
		a.err = cellError("The store is unavailable")
	}
}

// reply appends the reply: limited, limit, remaining, retry after and reset after.
func (a *throttleCall) reply(b []byte) []byte {
	if a.err != nil {
		return redcon.AppendError(b, a.err.Error())
	}
	d := &a.decision
	limited, remaining, retry, reset := int64(0), d.Remaining, int64(-1), seconds(d.ResetAfter)
	switch {
	case a.zeroCapacity: // as redis-cell computes it for a new key
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

// seconds rounds as redis-cell does: up, unless the rest is less than a millisecond.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second >= time.Millisecond {
		s++
	}
	return s
}

// shown returns the beginning of a client's text.
func shown(b []byte) string {
	if len(b) > maxShown {
		b = b[:maxShown]
	}
	return string(b)
}
