package rpclimit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
)

const (
	retryAfter = "Retry-After"
	pushback   = "Grpc-Retry-Pushback-Ms"

	// retryUndecided is when to come back after the store made no decision.
	retryUndecided = time.Second
	// maxPushback is the longest that a client is told to wait by itself.
	maxPushback = time.Minute
)

// An End is how a call ends that may not pass, or is not sent.
type End struct {
	Code Code
	Err  error // its text is for the caller

	// Retry is when the call may be repeated: the delay of a google.rpc.RetryInfo. An end
	// of which it is weir.Never has none.
	Retry time.Duration
}

// Refuse is how a call ends that p does not let pass. Up to jitter is added, at random, to
// the time after which to repeat a call that was denied. Of a call that was not decided,
// whose context ctx has ended, nothing but that is said.
func Refuse(ctx context.Context, p *enforce.Admission, jitter time.Duration) End {
	if p.Outcome() != enforce.Denied {
		if ctx.Err() != nil {
			return gone(ctx)
		}
		return end(Unavailable, "rate limits could not be decided", retryUndecided)
	}
	retry := p.Decision().RetryAfter
	if jitter > 0 && retry < weir.Never-jitter {
		retry += rand.N(jitter + 1)
	}
	text := "rate limited"
	if by := p.DeniedBy(); by != nil {
		text += " by policy " + by.Name()
	}
	return end(ResourceExhausted, text, retry)
}

// Tell sets the fields of metadata that say when to come back: Retry-After, and with push
// what the retry policy of a gRPC client keeps to. That is told not to repeat a call for
// which it would have to wait for more than a minute. A call that ended for another reason
// than a limit has none.
func (e End) SetHeader(h http.Header, push bool) {
	if e.Code != ResourceExhausted && e.Code != Unavailable {
		return
	}
	if e.Retry != weir.Never {
		h.Set(retryAfter, ceil(e.Retry, time.Second))
	}
	switch {
	case !push:
	case e.Retry > maxPushback:
		h.Set(pushback, "-1")
	default:
		h.Set(pushback, ceil(e.Retry, time.Millisecond))
	}
}

// ceil is d in whole units, rounded up, and at least one.
func ceil(d, unit time.Duration) string {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return strconv.FormatInt(max(1, n), 10)
}

// end is an End whose text says when to come back.
func end(code Code, text string, retry time.Duration) End {
	again := ": it would never be admitted"
	if retry != weir.Never {
		again = fmt.Sprintf(": try again in %v", retry)
	}
	return End{code, errors.New(text + again), retry}
}

// gone is how a call ends whose context has ended.
func gone(ctx context.Context) End {
	code := Canceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		code = DeadlineExceeded
	}
	return End{code, ctx.Err(), weir.Never}
}
