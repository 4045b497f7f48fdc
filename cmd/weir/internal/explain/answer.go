package explain

import (
	"strconv"
	"time"

	"github.com/floodweir/weir"
)

// An Answer describes how a request would be decided. Texts of clients, such as those
// in Key, are unchanged.
type Answer struct {
	// Request is the request as it was read.
	Request Request `json:"request"`

	// Verdict is the outcome of the request.
	Verdict Verdict `json:"verdict"`

	// Denial describes the denial; nil if the Verdict is not Denied.
	Denial *Denial `json:"denial,omitempty"`

	// Delay is the time that an admitted request would wait.
	Delay Seconds `json:"delay,omitempty"`

	// At is the time of the explanation by the store's clock; zero if the store was not
	// called.
	At time.Time `json:"at,omitzero"`

	// Policies lists all policies in their order. A candidate follows its policy.
	Policies []Policy `json:"policies"`

	// Unused means that the answer is that of unused keys, because the role read does not see the
	// state of a key.
	Unused bool `json:"unused,omitempty"`

	// Draft is the answer under the draft of the question; nil without one.
	Draft *Answer `json:"draft,omitempty"`
}

// A Request is a request as policies see it, or a bucket of the quota service.
type Request struct {
	Method   string `json:"method,omitempty"`
	Host     string `json:"host,omitempty"`
	Path     string `json:"path,omitempty"`
	ClientIP string `json:"client_ip,omitempty"`

	Domain string            `json:"domain,omitempty"`
	Bucket map[string]string `json:"bucket,omitempty"`
}

// A Verdict is the outcome of a request.
type Verdict string

// The verdicts.
const (
	// Unlimited is a request that no enforced policy matches.
	Unlimited Verdict = "unlimited"
	// Admitted is a request that would be admitted.
	Admitted Verdict = "admitted"
	// Denied is a request that would be denied.
	Denied Verdict = "denied"
	// Undecided is a request that the store did not decide: OnStoreError of the policies
	// would.
	Undecided Verdict = "undecided"
	// Assigned is a bucket whose clients decide by their parts of the limit.
	Assigned Verdict = "assigned"
	// Overloaded is a request that would be refused, because this process is overloaded.
	Overloaded Verdict = "overloaded"
)

// A Denial describes which policy denies a request, and how.
type Denial struct {
	Policy string `json:"policy"`
	Limit  string `json:"limit"`
	Status int    `json:"status"`

	// RetryAfter is the time until the request would be admitted; absent if Never.
	RetryAfter *Seconds `json:"retry_after,omitempty"`
	Never      bool     `json:"never,omitempty"`

	// Wait is the maximum time that the request would wait first.
	Wait Seconds `json:"wait,omitempty"`
}

// A Policy describes the result of one policy for a request.
type Policy struct {
	Name string `json:"policy"`

	// Matched reports whether the policy matches the request. If not, Why is the field
	// that does not match, such as "match.methods", or "mode" for a policy that is off.
	Matched bool   `json:"matched"`
	Why     string `json:"why,omitempty"`

	// Mode is the policy's mode, and Enforced reports whether it is enforced for this
	// key.
	Mode      string `json:"mode"`
	Percent   int    `json:"percent,omitempty"` // if not all keys
	Enforced  bool   `json:"enforced"`
	Candidate bool   `json:"candidate,omitempty"`

	// Count selects the requests that count, if not the admitted ones.
	Count string `json:"count,omitempty"`

	Key  string `json:"key,omitempty"`
	Cost int64  `json:"cost,omitempty"`

	// Adjustment says who adjusted the key and why; empty if it is not adjusted.
	Adjustment string `json:"adjustment,omitempty"`

	// Blocks is true if the policy blocks the request, whatever was charged.
	Blocks bool `json:"blocks,omitempty"`

	// OnStoreError is the decision without the store.
	OnStoreError string `json:"on_store_error,omitempty"`

	// Problem is the reason why an expression of the policy could not be evaluated, or
	// why the store did not decide.
	Problem string `json:"problem,omitempty"`

	Limits []Limit `json:"limits,omitempty"`
}

// A Limit describes the result of one limit.
type Limit struct {
	Limit     string `json:"limit"`
	OK        bool   `json:"ok"`
	Capacity  int64  `json:"capacity"`
	Remaining int64  `json:"remaining"`
	Debt      int64  `json:"debt,omitempty"`

	RetryAfter *Seconds `json:"retry_after,omitempty"`
	Never      bool     `json:"never,omitempty"`
	ResetAfter Seconds  `json:"reset_after"`
	Delay      Seconds  `json:"delay,omitempty"`

	// Decides is set for the limit that determines the verdict.
	Decides bool `json:"decides,omitempty"`

	// From lists former limits of the key, newest first, whose state is carried over.
	From []string `json:"from,omitempty"`

	// Borrowed reports whether the tokens are lent to the tenant.
	Borrowed bool `json:"borrowed,omitempty"`
	// Degraded describes a decision made without the store.
	Degraded string `json:"degraded,omitempty"`

	// Shares describes how processes divide the limit; nil if shares are off.
	Shares *Shares `json:"shares,omitempty"`

	// Region describes the part of this region; nil if regions do not divide the limit.
	Region *Region `json:"region,omitempty"`
}

// Seconds is a duration as a JSON number of seconds, rounded up to the microsecond.
type Seconds time.Duration

// MarshalJSON implements [json.Marshaler].
func (s Seconds) MarshalJSON() ([]byte, error) {
	us := (int64(s) + int64(time.Microsecond) - 1) / int64(time.Microsecond)
	return strconv.AppendFloat(nil, float64(us)/1e6, 'f', -1, 64), nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *Seconds) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil || f < 0 || f > float64(weir.Never)/1e9 {
		return invalid("seconds", string(b), "a number of seconds")
	}
	*s = Seconds(time.Duration(f*1e6+0.5) * time.Microsecond)
	return nil
}

// limitOf returns the result of one limit.
func limitOf(r weir.Request, d weir.Decision) Limit {
	l := Limit{
		Limit: r.Limit.Brief(), OK: d.OK, Capacity: r.Limit.Capacity(), Remaining: d.Remaining, Debt: d.Debt,
		ResetAfter: Seconds(d.ResetAfter), Delay: Seconds(d.Delay), Borrowed: d.Borrowed, Degraded: string(d.Degraded),
	}
	l.RetryAfter, l.Never = retry(d)
	for _, from := range r.From {
		l.From = append(l.From, from.String())
	}
	return l
}

func retry(d weir.Decision) (*Seconds, bool) {
	if d.RetryAfter == weir.Never {
		return nil, true
	}
	s := Seconds(d.RetryAfter)
	return &s, false
}
