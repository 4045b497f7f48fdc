package policy

import "github.com/floodweir/weir"

// A Config describes a policy. Name, Key and Limits are required; the zero value
// of every other field is its default.
type Config struct {
	// Name identifies the policy in keys, response fields, logs and metrics: 1 to 64
	// of the letters a to z and A to Z, digits, '.', '_' and '-', beginning with a
	// letter or digit.
	Name string

	// Match says which requests the policy is about; all of them if zero.
	Match Match

	// Key says who shares a bucket. Use a Constant for one bucket that all share.
	Key []KeyPart

	// Zone, if not empty, names a state that the policies of one Zone have in common, as
	// the uses of a zone of nginx's limit_req do: their keys begin with it (see
	// [Policy.Bucket]). They have equal keys, and limits of which each has the
	// [weir.Limit.Spec] of its counterpart; burst and delay of leaky buckets that are
	// Shared may differ. So it is with their overrides.
	// A request counts once in a zone: of its policies that fit, in the order of the set
	// and in whatever mode but Off, the first is asked and the others are not. A
	// candidate is outside of the zone. The spelling is that of Name.
	Zone string

	// Limits are decided together, all or nothing. No two may have one state.
	Limits []weir.Limit

	// Cost is the number of tokens that a request takes of every limit; 1 if zero.
	// It may not be above the capacity of a limit: no request would ever pass.
	Cost int64

	// CostOf, if not nil, measures the cost of each request. Cost then stands for a
	// request that cannot be measured. A cost of 0 asks and takes nothing; one above
	// the capacity of a limit is denied, with weir.Never.
	CostOf Expression[int64]

	// Settle says what the response makes of the cost; nothing if zero. It is not for
	// a concurrency limit: a slot is given back and costs nothing.
	Settle Settle

	// Count says which requests count; CountAdmitted if empty. Any other is not for a
	// concurrency limit. What counts, counts at the cost that Settle makes of it.
	Count Count

	// Failures are the ranges of statuses that CountFailures and CountSuccesses call a
	// failure, each with its first and its last status; 400 to 599 if empty.
	Failures [][2]int

	// OnDenied is the answer to a denied request.
	OnDenied OnDenied

	// OnStoreError says what becomes of a request that the store could not decide;
	// Open if empty.
	OnStoreError FailMode

	// Mode is Enforce if empty.
	Mode Mode

	// Percent, from 1 to 100, enforces the policy for so many of a hundred keys; the
	// others are in Shadow. A key stays on its side as long as Percent does not
	// change, and one that is enforced stays so as Percent grows: enforced are the keys
	// whose hash is below Percent, which is the FNV-1a of 64 bits of the key, which
	// begins with the name of the policy, mixed by the finalizer of MurmurHash3,
	// modulo 100. 100 if zero; less is for Enforce only.
	Percent int

	// Candidate are limits to try out beside Limits: they decide in shadow about the
	// same requests, as a policy of the name NAME~candidate with keys of its own,
	// whatever the policies decide. Overrides and Percent are not for them.
	Candidate []weir.Limit

	// Carry says what becomes of a key's tokens when its limits change in a Set that
	// follows another. With weir.CarryReset the new limits start afresh.
	Carry weir.Carry

	// Overrides give certain keys limits of their own: at most 100,000, of which
	// at most 1,000 match more than one key.
	Overrides []Override
}

// A FailMode selects the outcome of a request that the store did not decide. The zero value
// means Open in every configuration that has a FailMode.
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

// A Count says which requests count against the limits of a policy.
type Count string

// The counts. A door that does not see responses counts those that it admits for
// CountFailures and CountSuccesses.
const (
	// CountAdmitted counts what is admitted.
	CountAdmitted Count = "admitted"
	// CountAll counts what is denied too, into debt: who does not slow down stays out.
	CountAll Count = "all"
	// CountFailures counts what is answered with one of Failures.
	CountFailures Count = "failures"
	// CountSuccesses counts what is answered with none of Failures.
	CountSuccesses Count = "successes"
)

// Settle says where a response tells what its request cost. The cost that is known
// before is reserved and then settled: what was too much goes back, what was too
// little is charged, into debt if need be. At most one of Header and JSON is set. A
// response that does not tell leaves the cost as it was.
type Settle struct {
	// Header is a response header with a whole number in it.
	Header string
	// JSON is where the number stands in a response body in JSON, as names of members
	// joined by dots: usage.total_tokens.
	JSON string
}

// A Mode says how a policy is applied.
type Mode string

// The modes.
const (
	// Enforce denies what the limits deny.
	Enforce Mode = "enforce"
	// Shadow decides and counts, and lets every request through.
	Shadow Mode = "shadow"
	// Off asks nothing.
	Off Mode = "off"
)

// An Override replaces the limits of one key, or of all keys that fit.
type Override struct {
	// Key has one value for every part of the policy's key, in its order; "" is the
	// anonymous part. A value for ClientIP is an address, or a prefix that cuts no
	// bucket. In other values '*' stands for any text: a star itself cannot be written,
	// but in a pattern of Match.Paths and in a Constant. A '*' alone is any value and
	// none, also for ClientIP; in a longer value it wants a value, of at most 8 KiB.
	//
	// A key that an override names exactly has its limits; any other key those of the
	// first override that fits.
	Key []string

	// Limits replace the limits of the policy.
	Limits []weir.Limit
}
