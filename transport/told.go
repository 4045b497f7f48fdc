package transport

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Told is how long a server asks to be left alone by the answer resp, and whether it
// says anything about that. It is what the first of these says that says something:
//
//   - Retry-After of a 429 or 503: seconds, or a date.
//   - RateLimit of draft-ietf-httpapi-ratelimit-headers-07 and later, a dictionary or a
//     list of limits: the longest reset of those of which nothing is left. A limit whose
//     reset is not said is taken to begin anew within its window in RateLimit-Policy.
//   - RateLimit-Remaining and RateLimit-Reset, as in the drafts before.
//   - X-RateLimit-Remaining and X-RateLimit-Reset, and X-Rate-Limit-….
//
// The last two hold back if nothing remains, or if a 429 does not say what remains.
// Their reset is seconds from now, or from 10^9 on a Unix time in seconds, and from
// 10^12 on one in milliseconds: GitHub's and GitLab's is. Dates and Unix times are
// compared with the answer's Date, if it has one, so that it does not matter whether the
// clocks agree.
//
// What is malformed is as if absent. The answer may be as long as a time.Duration: who
// waits for it bounds it.
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

// retryAfter reads a field Retry-After.
func retryAfter(text string, now time.Time) (time.Duration, bool) {
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now)), true
	}
	s, ok := decimal(text)
	return seconds(s), ok
}

// remainingReset reads two fields of whole numbers. A limit of which something remains
// says that there is nothing to wait for.
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

// maxDigits is the longest number that is read as one; a longer one is for ever.
const maxDigits = 15

// decimal reads digits, with a fraction or without.
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

// seconds is s as a duration, rounded up to the millisecond and no longer than the
// longest there is.
func seconds(s float64) time.Duration {
	if ms := math.Ceil(s * 1e3); ms < math.MaxInt64/1e6-1 {
		return time.Duration(ms) * time.Millisecond
	}
	return math.MaxInt64
}
