package guard

import (
	"context"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/protect"
)

// A Config configures a Registry. Its zero value keeps state in memory, and every guard has its
// own limits.
type Config struct {
	// Store keeps the state. If nil, the registry makes a memory store, which it keeps when
	// it is configured again. If that is full, new keys share an overflow bucket.
	Store weir.Store

	// Instance is the name of this process in keys with a part for the instance, in the form
	// of policy.Config.Name. If empty, it is random and stays the same while the process runs.
	// With a name that a restart keeps, such as that of a pod, keys keep their state.
	Instance string

	// Options apply to every guard: each has a queue of MaxWaiters.
	enforce.Options

	// Functions are the rules of guards and resources by name; none if nil.
	Functions *Functions

	// Protections makes the protections that a rule has besides limits: see package
	// contrib/failsafe. It is required if a rule has any. If the rule does not change,
	// Configure keeps its protections. Neither Protections nor what it returns may call the
	// registry.
	Protections func(name string, s Settings) ([]Protection, error)

	// Observe, if not nil, is called with the decision about a call, once for each rule
	// that applies, before the function is called. It must return quickly. It does not
	// report calls that a Protection refuses afterwards.
	Observe func(ctx context.Context, name string, e enforce.Event)
}

// Functions holds the section functions of a policy file.
type Functions struct {
	// Mode applies to all rules, and to all guards without a rule: policy.Off disables
	// them, policy.Shadow denies nothing. Enforce if empty: each rule has its own mode.
	Mode policy.Mode

	// Rules have different names.
	Rules []Rule

	// System applies to every call of the program, with one key, in addition to the rule of
	// the call's name; nil if there is none. Its name is "system", and its key is a
	// policy.Constant, or KeyPart.
	System *Rule
}

// A Rule configures the guards and resources of one name.
type Rule struct {
	// Policy has the name, the limits, the mode and the overrides by key. Its Key is KeyPart
	// alone, and its Match and Settle are empty. Its Cost is that of a call; Guard.EnterN
	// takes a multiple of it. A rule without limits has Settings and a Name instead of a
	// Policy; a guard then has the limits of its Resource.
	Policy *policy.Policy
	Name   string

	// PerInstance means that each process has the limits of Policy for itself, in a store that
	// several processes share: Config.Instance becomes a part of the key.
	PerInstance bool

	// Settings are for Config.Protections. They are off unless the Mode of Policy and
	// Functions is policy.Enforce. Each has a shadow mode of its own.
	Settings Settings
}

// systemName is the name of Functions.System.
const systemName = "system"

// Settings holds the configuration of the protections of a rule besides limits. A nil field means none.
type Settings struct {
	Breaker  *Breaker
	Adaptive *Adaptive
	Bulkhead *Bulkhead
}

// A Breaker stops calls for a while after too many of them failed or were slow.
type Breaker struct {
	// Failures among the last Of calls open the breaker; Of is Failures if zero. With Period
	// instead of Of, it is that number of failures within Period. If Rate is set instead, that
	// percentage, 1 to 100, of the calls within Period opens it, if there were at least Of
	// calls.
	Failures, Of int
	Rate         int
	Period       time.Duration

	// Slow, if not zero, is the duration from which a call counts as failed. With SlowRate such
	// calls are counted apart instead: that percentage, 1 to 100, of the calls within Period
	// opens the breaker, if there were at least Of calls. It can stand beside Rate.
	Slow     time.Duration
	SlowRate int

	// Cooldown is the time that the breaker stays open. It then admits Trials calls, one if
	// zero, and closes if all of them succeed.
	Cooldown time.Duration
	Trials   int

	Shadow bool // refuse nothing: see protect.Shadow
}

// Adaptive limits the calls in flight by their latency: see protect.AdaptiveLimit.
type Adaptive struct {
	Min, Max, Initial int

	Shadow bool // refuse nothing: see protect.Shadow
}

// A Bulkhead bounds the calls in flight in this process. Up to MaxWaiters more wait for at most
// Wait.
type Bulkhead struct {
	Max, MaxWaiters int
	Wait            time.Duration

	Shadow bool // refuse nothing, and let no call wait: see protect.Shadow
}

// A Protection can refuse calls besides limits, for example a circuit breaker. It is safe for
// concurrent use. Protections are asked after the limits have admitted a call, so they hold
// nothing for calls that wait for a limit, and do not count calls that a limit denied. If a
// Protection refuses, the limits get their tokens back. If another Protection refuses the call,
// exit is called with ErrCanceled.
type Protection = protect.Protection
