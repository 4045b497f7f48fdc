package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
)

// An expectation lists the expected properties of one decision. Fields that are not set are
// not compared.
type expectation struct {
	decision     string // "allow" or "deny"
	policy       string
	status       int
	retryAfter   *time.Duration
	remaining    *int64
	remainingOf  map[string]int64 // by policy
	delay        *time.Duration
	matched      []string // nil: not compared
	shadowDenied []string // nil: not compared
	degraded     *string
	borrowed     string // "true" or "false"; "": not compared
	headers      map[string]string
}

// A Difference is one property of a decision that is not the expected one.
type Difference struct {
	Field string `json:"field"`
	Got   string `json:"got"`
	Want  string `json:"want"`
}

// compare returns how x differs from the expectation of its step.
func (x *exchange) compare() []Difference {
	want := &x.step.expect[x.index%len(x.step.expect)]
	c := comparison{}
	d, deniedBy := x.decisive()
	got := "deny"
	if x.admitted {
		got = "allow"
	}
	c.text("decision", got, want.decision)
	if want.policy != "" {
		c.text("policy", cmp.Or(deniedBy, "none"), want.policy)
	}
	if want.status != 0 {
		c.text("status", strconv.Itoa(x.response.status), strconv.Itoa(want.status))
	}
	if want.retryAfter != nil {
		retry := d.RetryAfter
		if retry != weir.Never { // 333.334ms matches 334ms, and 400ms only 400ms
			retry = roundUp(retry, precision(*want.retryAfter))
		}
		if x.admitted || retry != *want.retryAfter {
			c.add("retry_after", x.retryText(d), retryText(*want.retryAfter))
		}
	}
	if want.remaining != nil {
		c.text("remaining", strconv.FormatInt(d.Remaining, 10), strconv.FormatInt(*want.remaining, 10))
	}
	for _, name := range slices.Sorted(maps.Keys(want.remainingOf)) {
		c.text("remaining."+name, x.remaining(name), strconv.FormatInt(want.remainingOf[name], 10))
	}
	if want.delay != nil && roundUp(x.waited, precision(*want.delay)) != *want.delay {
		c.add("delay", x.waited.String(), want.delay.String())
	}
	if want.matched != nil {
		c.names("matched", x.named(func(e *enforce.Event) bool { return !e.Shadow }), want.matched)
	}
	if want.shadowDenied != nil {
		c.names("shadow_denied", x.named(func(e *enforce.Event) bool { return e.Shadow && e.Outcome == enforce.Denied }), want.shadowDenied)
	}
	if want.degraded != nil {
		got := x.response.header.Get(httplimit.DegradedField)
		if got != *want.degraded {
			c.add("degraded", cmp.Or(got, "none"), cmp.Or(*want.degraded, "none"))
		}
	}
	if want.borrowed != "" {
		borrowed := slices.ContainsFunc(x.events, func(e enforce.Event) bool { return e.Decision.Borrowed })
		c.text("borrowed", strconv.FormatBool(borrowed), want.borrowed)
	}
	for _, name := range slices.Sorted(maps.Keys(want.headers)) {
		c.text("headers."+name, strings.Join(x.response.header[http.CanonicalHeaderKey(name)], ", "), want.headers[name])
	}
	return c.differences
}

// retryText returns the RetryAfter of x.
func (x *exchange) retryText(d weir.Decision) string {
	if x.admitted {
		return "none"
	}
	return retryText(d.RetryAfter)
}

// remaining returns the remaining tokens of a policy for x.
func (x *exchange) remaining(policy string) string {
	for _, e := range x.events {
		if e.Policy.Name() == policy && !e.Decision.Limit.IsZero() {
			return strconv.FormatInt(e.Decision.Remaining, 10)
		}
	}
	return "no decision"
}

// named returns the names of the policies of some events, without those that report a
// failed settlement.
func (x *exchange) named(some func(*enforce.Event) bool) []string {
	names := []string{}
	for i := range x.events {
		if e := &x.events[i]; !e.Outcome.AtEnd() && some(e) {
			names = append(names, e.Policy.Name())
		}
	}
	return names
}

// A comparison collects differences.
type comparison struct{ differences []Difference }

func (c *comparison) add(field, got, want string) {
	c.differences = append(c.differences, Difference{field, got, want})
}

func (c *comparison) text(field, got, want string) {
	if got != want {
		c.add(field, got, want)
	}
}

// names compares sets of names.
func (c *comparison) names(field string, got, want []string) {
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		c.add(field, fmt.Sprintf("[%s]", strings.Join(got, ", ")), fmt.Sprintf("[%s]", strings.Join(want, ", ")))
	}
}

// precision returns the unit in which d is written: 1s for 12s, 1ms for 1.5s or 334ms.
func precision(d time.Duration) time.Duration {
	for _, unit := range []time.Duration{time.Second, time.Millisecond} {
		if d%unit == 0 && d > 0 {
			return unit
		}
	}
	return time.Microsecond
}

func roundUp(d, unit time.Duration) time.Duration { return (d + unit - 1) / unit * unit }
