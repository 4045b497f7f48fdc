package httpapi

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/httplimit"
)

// seconds is a duration as a JSON number of seconds, rounded up to the
// microsecond.
type seconds time.Duration

// MarshalJSON implements [json.Marshaler].
func (s seconds) MarshalJSON() ([]byte, error) {
	us := (int64(s) + int64(time.Microsecond) - 1) / int64(time.Microsecond)
	b := strconv.AppendInt(nil, us/1e6, 10)
	if frac := us % 1e6; frac != 0 {
		digits := strconv.AppendInt(nil, 1e6+frac, 10)[1:]
		for digits[len(digits)-1] == '0' {
			digits = digits[:len(digits)-1]
		}
		b = append(append(b, '.'), digits...)
	}
	return b, nil
}

// verdict is what is said of one decision.
type verdict struct {
	OK         bool     `json:"ok"`
	Limit      string   `json:"limit"`
	Capacity   int64    `json:"capacity"`
	Granted    int64    `json:"granted"`
	Remaining  int64    `json:"remaining"`
	RetryAfter *seconds `json:"retry_after,omitempty"`
	Never      bool     `json:"never,omitempty"`
	ResetAfter seconds  `json:"reset_after"`
	Delay      *seconds `json:"delay,omitempty"`
}

// answer is what a client reads: the decision that counts and, of several
// limits, every one.
type answer struct {
	verdict
	Policy   string        `json:"policy,omitempty"`
	At       string        `json:"at"`
	Degraded weir.Degraded `json:"degraded,omitempty"`
	Limits   []verdict     `json:"limits,omitempty"`
}

func judge(d weir.Decision) verdict {
	v := verdict{
		OK: d.OK, Limit: d.Limit.String(), Capacity: d.Capacity(), Granted: d.Granted,
		Remaining: d.Remaining, ResetAfter: seconds(d.ResetAfter),
	}
	if d.RetryAfter == weir.Never {
		v.Never = true
	} else {
		retry := seconds(d.RetryAfter)
		v.RetryAfter = &retry
	}
	if d.Delay != 0 {
		delay := seconds(d.Delay)
		v.Delay = &delay
	}
	return v
}

// items are what the response fields say: each limit under its policy's name, as a
// gateway does, or under its own text.
func items(policy string, ds []weir.Decision) []httplimit.Item {
	var items []httplimit.Item
	for i, d := range ds {
		name := policy
		switch {
		case policy == "":
			name = d.Limit.String()
		case len(ds) > 1:
			name += "/" + strconv.Itoa(i+1)
		}
		items = append(items, httplimit.Item{Name: name, Decision: d})
	}
	return items
}

// Answer is the body of the answer to decisions that were made together.
func Answer(policy string, ds []weir.Decision) []byte {
	counts := weir.Combine(ds)
	a := answer{
		verdict:  judge(counts),
		Policy:   policy,
		At:       counts.At.UTC().Format("2006-01-02T15:04:05.000000Z07:00"),
		Degraded: counts.Degraded,
	}
	if len(ds) > 1 {
		for _, d := range ds {
			a.Limits = append(a.Limits, judge(d))
		}
	}
	b, err := json.Marshal(a)
	if err != nil { // numbers, texts and bools always marshal
		panic(err)
	}
	return append(b, '\n')
}
