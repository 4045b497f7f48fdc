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

	// Limits are decided together, all or nothing. No two may be equal.
	Limits []weir.Limit

	// Cost is the number of tokens that a request takes of every limit; 1 if zero.
	// It may not be above the capacity of a limit: no request would ever pass.
	Cost int64

	// OnDenied is the answer to a denied request.
	OnDenied OnDenied

	// OnStoreError says what becomes of a request that the store could not decide;
	// Open if empty.
	OnStoreError FailMode

	// Mode is Enforce if empty.
	Mode Mode

	// Overrides give certain keys limits of their own.
	Overrides []Override
}

// A FailMode says what becomes of a request when no decision could be made.
type FailMode string

// The fail modes.
const (
	// Open lets the request through.
	Open FailMode = "open"
	// Closed refuses the request.
	Closed FailMode = "closed"
)

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

// An Override replaces the limits of one key.
type Override struct {
	// Key has one value for every part of the policy's key, in its order. A value
	// for ClientIP is an address, or a prefix as long as those that share a bucket.
	Key []string

	// Limits replace the limits of the policy.
	Limits []weir.Limit
}
