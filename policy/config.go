package policy

import (
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/budget"
)

// A Config describes a policy. Name, Key and one of Limits, Block and Unlimited are required. The
// zero value of every other field is its default.
type Config struct {
	// Name identifies the policy in keys, response fields, logs and metrics. It has 1 to 64
	// letters a to z and A to Z, digits, '.', '_' and '-', with a letter or digit first.
	Name string

	// Match selects the requests of the policy; all if zero.
	Match Match

	// Except are the requests of Match to which the policy does not apply.
	Except []Exception

	// Key selects the bucket of a request. A Constant is one bucket for all requests.
	Key []KeyPart

	// Zone, if not empty, is the name of a state that several policies share, like a zone of
	// nginx's limit_req: their keys begin with it (see [Policy.Bucket]). They must have equal
	// keys and limits with the same states; burst and delay of leaky buckets that are Shared
	// may differ. The same holds for their overrides. A request is charged once in a zone, by
	// the first policy in the order of the set that matches and is not Off. A candidate is
	// outside of the zone. The spelling is that of Name.
	Zone string

	// Limits are decided together, all or nothing. Each must have its own state. New names the
	// states (see Carry).
	Limits []weir.Limit

	// Block denies every matching request, with weir.Never and without the store. Without a
	// Key, it has that of one bucket for all requests.
	Block bool

	// Unlimited admits every request of a key without an override.
	Unlimited bool

	// Cost is the number of tokens that a request takes of every limit, at most the capacity
	// of each; 1 if zero.
	Cost int64

	// CostOf, if not nil, computes the cost of each request. Cost is then the cost of a
	// request for which CostOf fails. A cost of 0 consumes nothing. A cost above the capacity
	// of a limit is denied, with weir.Never.
	CostOf Expression[int64]

	// Settle determines the cost from the response; not used if zero. It cannot be combined
	// with a concurrency limit: a slot is returned and has no cost.
	Settle Settle

	// Count selects the requests that count; CountAdmitted if empty. Other values cannot be
	// combined with a concurrency limit. A request that counts has the cost that Settle
	// determines.
	Count Count

	// Failures are the ranges of statuses that CountFailures and CountSuccesses call a
	// failure, each with its first and its last status; 400 to 599 if empty.
	Failures [][2]int

	// OnDenied is the response to a denied request.
	OnDenied OnDenied

	// OnStoreError selects the outcome of a request that the store did not decide; Local if
	// empty.
	OnStoreError FailMode

	// Mode is Enforce if empty.
	Mode Mode

	// Percent, from 1 to 100, is the percentage of keys for which the policy is enforced; the
	// others are in Shadow; 100 if zero. Less than 100 requires Enforce. A key stays enforced
	// when Percent grows. It is enforced if its hash is below Percent: the 64-bit FNV-1a of
	// the key, mixed by the finalizer of MurmurHash3, modulo 100.
	Percent int

	// Candidate are limits to try out beside Limits. They decide in shadow mode about the
	// same requests, whatever the policies decide, as a policy with the name NAME~candidate
	// and its own keys. Overrides and Percent do not apply to them.
	Candidate []weir.Limit

	// Carry selects what happens to the tokens of a key when its limits change. With
	// weir.CarryUsage, the default, a limit of the same period and algorithm uses the same state,
	// in all processes. This excludes limits that are Shared, and several limits of one period
	// and algorithm, unless weir.Limit.Named gives each a name. In other cases the tokens are
	// carried over in a Set with a previous one. With weir.CarryReset the new limits start full.
	Carry weir.Carry

	// Overrides replace the limits of certain keys: at most 100,000, of which at most 1,000
	// match more than one key.
	Overrides []Override

	// Tenants, if there are any, divide the limit among the keys: at most 1,000. Limits is then one
	// smooth token bucket, the parent. Each tenant has a guaranteed minimum, and what it does not
	// use is lent to the others (see weir.TenantBucket). A tenant with the key "*" is required: it
	// is that of all keys without a tenant of their own. Overrides, Candidate, Zone, a Meter and
	// other values of Carry than CarryUsage are not available with tenants.
	Tenants []Tenant

	// Weighted lends by weight; otherwise first come, first served. It requires Tenants.
	Weighted bool

	// EachRegion gives the whole limits to each region, for stores of package share/regions. Otherwise
	// regions divide them.
	EachRegion bool

	// Shares divides the limits among processes, for stores of package share. A policy with shares
	// counts admitted requests, and has no Settle, Zone and Tenants.
	Shares Shares
}

// Shares selects the limits of a policy that are divided, and their bounds: see share.Terms. Limits
// that share.Supports refuses stay strict. All processes need the same value of Auto: a limit with
// shares and one without have different states.
type Shares struct {
	Auto    bool          // divide the limits; false: strict
	Lease   time.Duration // of a share, from 1s to 1h; the default of package share if zero
	Largest int           // percent of a limit for one process, from 1 to 100; 100 if zero
}

// A FailMode selects the outcome of a request that the store did not decide. The zero value
// means Local in every configuration that has a FailMode. No mode applies to an error that
// wraps weir.ErrOverloaded: such a request is refused.
type FailMode = weir.FailMode

// The fail modes.
const (
	// Open lets the request through.
	Open FailMode = "open"
	// Closed refuses the request.
	Closed FailMode = "closed"
	// Local decides by this process's share of the limits, kept in its memory.
	Local FailMode = "local"
)

// A Count selects the requests that count against the limits of a policy.
type Count string

// The counts. An interface without responses counts admitted requests for CountFailures and
// CountSuccesses.
const (
	// CountAdmitted counts admitted requests.
	CountAdmitted Count = "admitted"
	// CountAll counts denied requests too, so clients that keep retrying stay denied.
	CountAll Count = "all"
	// CountFailures counts requests whose response has a status of Failures.
	CountFailures Count = "failures"
	// CountSuccesses counts requests whose response has another status.
	CountSuccesses Count = "successes"
)

// Settle locates the cost of a request in its response. The cost that is known before is
// reserved. At the response the difference is returned or charged, as debt if necessary. At
// most one of Header, JSON, Expr and Meter is set. Without a cost in the response, the reserved cost
// stays, or the sum of the numbers in it if that is larger.
type Settle struct {
	// Header is a response header with a whole number.
	Header string
	// JSON is the path of the number in a JSON response body: names of members joined by
	// dots, such as usage.total_tokens. It may be a sum of paths joined by plus signs. Every
	// number of a sum must occur. In a stream of events each path has its last number.
	JSON string
	// Expr, if not nil, computes the cost from the response.
	Expr ResponseExpression
	// Meter, if not nil, computes the cost from the usage in the response of a language
	// model. The default of CostOf is then its first reservation for the body of the request. That
	// is charged at once and corrected by the response. If the process ends before that, it
	// stays charged. Policies with the same Meter are charged further steps together.
	Meter *budget.Meter
}

// Paths returns the paths of the sum in JSON, or those of Expr.
func (s Settle) Paths() []string {
	switch {
	case s.Expr != nil:
		return s.Expr.Paths()
	case s.JSON == "":
		return nil
	}
	paths := strings.Split(s.JSON, "+")
	for i := range paths {
		paths[i] = strings.TrimSpace(paths[i])
	}
	return paths
}

// A Mode selects how a policy is applied.
type Mode string

// The modes.
const (
	// Enforce denies what the limits deny.
	Enforce Mode = "enforce"
	// Shadow decides and counts, and admits every request.
	Shadow Mode = "shadow"
	// Off charges nothing.
	Off Mode = "off"
)

// An Override replaces the limits of one key, or of all keys that match.
type Override struct {
	// Key has one value for every part of the policy's key, in its order; "" is the
	// anonymous part. A value for ClientIP is an address, or a prefix that contains whole
	// buckets. In other values '*' stands for any text; only patterns of Match.Paths and a
	// Constant may have a star itself. A '*' alone matches any value and none, also for
	// ClientIP. A '*' in a longer value requires a value of at most 8 KiB.
	//
	// An override that names a key exactly precedes all others. Otherwise the first override
	// that matches applies.
	Key []string

	// Limits replace the limits of the policy. Block and Unlimited are as in Config; one of
	// the three is set.
	Limits    []weir.Limit
	Block     bool
	Unlimited bool
}
