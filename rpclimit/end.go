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
	"github.com/floodweir/weir/httplimit"
)

const (
	retryAfter = "Retry-After"
	pushback   = "Grpc-Retry-Pushback-Ms"

	// maxPushback is the longest delay after which a gRPC client retries by itself.
	maxPushback = time.Minute
)

// An End describes how a call ends that was denied, or was not sent.
type End struct {
	Code Code
	Err  error // its text is sent to the caller

	// Retry is the delay of a google.rpc.RetryInfo; weir.Never means that there is none.
	Retry time.Duration

	// Protection is the name of the protection that rejected the call; "" if none did. It is
	// sent as httplimit.ProtectionField.
	Protection string
}

// Refuse returns how a call ends that p did not admit. Up to jitter, chosen at random, is added
// to the retry delay of a denied call. If the store made no decision because ctx ended, the End
// reports only the end of ctx.
func Refuse(ctx context.Context, p *enforce.Admission, jitter time.Duration) End {
	if p.Outcome() != enforce.Denied {
		if ctx.Err() != nil {
			return canceled(ctx)
		}
		text := "rate limit store unavailable"
		if errors.Is(p.Err(), weir.ErrOverloaded) {
			text = "rate limiter overloaded"
		}
		return end(Unavailable, text, enforce.RetryAfter(p.Err()))
	}
	retry := later(p.Decision().RetryAfter, jitter)
	text := "rate limited"
	if by := p.DeniedBy(); by != nil {
		text += " by policy " + by.Name()
	}
	return end(ResourceExhausted, text, retry)
}

// later adds up to jitter to a retry delay.
func later(retry, jitter time.Duration) time.Duration {
	if jitter > 0 && retry < weir.Never-jitter {
		retry += rand.N(jitter + 1)
	}
	return retry
}

// SetHeader sets the metadata with the name of the protection, and the retry delay: Retry-After, and with push also
// Grpc-Retry-Pushback-Ms, which the retry policy of a gRPC client obeys. A delay of more than
// a minute disables the client's automatic retry. Nothing is set if the call ended for another
// reason than a limit.
func (e End) SetHeader(h http.Header, push bool) {
	if e.Code != ResourceExhausted && e.Code != Unavailable {
		return
	}
	if e.Protection != "" {
		h.Set(httplimit.ProtectionField, e.Protection)
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

// ceil returns d in whole units, rounded up, and at least one.
func ceil(d, unit time.Duration) string {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return strconv.FormatInt(max(1, n), 10)
}

// end returns an End whose text contains the retry delay.
func end(code Code, text string, retry time.Duration) End {
	again := ": never admitted"
	if retry != weir.Never {
		again = fmt.Sprintf(": retry after %v", retry)
	}
	return End{Code: code, Err: errors.New(text + again), Retry: retry}
}

// canceled returns how a call ends whose context has ended.
func canceled(ctx context.Context) End {
	code := Canceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		code = DeadlineExceeded
	}
	return End{Code: code, Err: ctx.Err(), Retry: weir.Never}
}

// The reason and the domain of the google.rpc.ErrorInfo of a call that a protection rejected. Its
// metadata has the name of the protection, "protection".
const (
	ReasonProtection = "REJECTED_BY_PROTECTION"
	Domain           = "weir"
)
