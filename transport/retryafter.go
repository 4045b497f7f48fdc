package transport

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// RetryAfter returns the pause that a server asks for in resp, and whether it says anything
// about one. The first of these fields that says something counts:
//
//   - Retry-After of a 429 or 503: seconds, or a date.
//   - RateLimit of draft-ietf-httpapi-ratelimit-headers-07 and later, a dictionary or a
//     list of limits: the longest reset of the limits with nothing remaining. A limit
//     without a reset resets within its window in RateLimit-Policy.
//   - RateLimit-Remaining and RateLimit-Reset of the earlier drafts.
//   - X-RateLimit-Remaining and X-RateLimit-Reset, and X-Rate-Limit-….
//
// The last two ask for a pause if nothing remains, or if a 429 does not say what remains.
// Their reset is in seconds from now; from 10^9 on it is a Unix time in seconds, as GitHub and
// GitLab send it, and from 10^12 on in milliseconds. Dates and Unix times are compared with
// the response's Date, if it has one, so that clocks need not agree.
//
// A malformed field is ignored. The pause can be as long as a time.Duration; callers must
// bound it.
func RetryAfter(resp *http.Response) (time.Duration, bool) {
	h, now := resp.Header, time.Now()
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	denied := resp.StatusCode == http.StatusTooManyRequests
	if denied || resp.StatusCode == http.StatusServiceUnavailable {
		if d, ok := retryAfter(h.Get("Retry-After"), now); ok {
			return d, true
		}
	}
	if d, ok := rateLimit(h); ok {
		return d, true
	}
	for _, prefix := range []string{"Ratelimit", "X-Ratelimit", "X-Rate-Limit"} {
		if d, ok := remainingReset(h.Get(prefix+"-Remaining"), h.Get(prefix+"-Reset"), denied, now); ok {
			return d, true
		}
	}
	return 0, false
}

// retryAfter parses a Retry-After field.
func retryAfter(text string, now time.Time) (time.Duration, bool) {
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now)), true
	}
	s, ok := decimal(text)
	return seconds(s), ok
}

// remainingReset parses two fields of whole numbers. If something remains, the pause is 0.
func remainingReset(remaining, reset string, denied bool, now time.Time) (time.Duration, bool) {
	left, ok := decimal(remaining)
	switch {
	case ok && left >= 1:
		return 0, !denied
	case !ok && (!denied || remaining != ""):
		return 0, false
	}
	s, ok := decimal(reset)
	switch {
	case !ok:
		return 0, false
	case s >= 1e12:
		s = s/1e3 - unix(now)
	case s >= 1e9:
		s -= unix(now)
	}
	return seconds(max(0, s)), true
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }

// maxDigits is the length of the longest number that is parsed; a longer one is the maximum.
const maxDigits = 15

// decimal parses digits with an optional fraction.
func decimal(text string) (float64, bool) {
	text = strings.Trim(text, " \t")
	whole, fraction, point := strings.Cut(text, ".")
	if !digits(whole) || point && !digits(fraction) {
		return 0, false
	}
	if len(whole) > maxDigits {
		return math.MaxFloat64, true
	}
	f, err := strconv.ParseFloat(text[:min(len(text), len(whole)+1+maxDigits)], 64)
	return f, err == nil
}

func digits(text string) bool {
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return text != ""
}

// seconds returns s as a duration, rounded up to the millisecond, at most the longest
// Duration.
func seconds(s float64) time.Duration {
	if ms := math.Ceil(s * 1e3); ms < math.MaxInt64/1e6-1 {
		return time.Duration(ms) * time.Millisecond
	}
	return math.MaxInt64
}
