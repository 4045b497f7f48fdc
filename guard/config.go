package guard

import (
	"context"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
)

// A Config says where the guards of a Registry keep their state and what their limits
// are. Its zero value keeps it in memory and leaves every guard its own limits.
type Config struct {
	// Store keeps the state. A memory store of the registry's own if nil, which stays
	// the same one when the registry is configured again; when it is full of keys that
	// owe, new ones share a bucket.
	Store weir.Store

	// Options apply to every guard: each has a queue of MaxWaiters.
	enforce.Options

	// Functions are the rules of guards and resources by name; none if nil.
	Functions *Functions

	// Ward makes what a rule asks for beside limits: see package contrib/failsafe. It
	// is required if a rule asks for one. A ward whose rule did not change is kept when
	// the registry is configured again. It does not call the registry, nor does a ward.
	Ward func(name string, s Settings) ([]Protection, error)

	// Observe, if not nil, is told what became of a call, once for each rule that it
	// falls under. It is called before the function and has to be quick. What a Ward
	// refuses after that it is not told.
	Observe func(ctx context.Context, name string, e enforce.Event)
}

// Functions are what the section functions of a policy file says.
type Functions struct {
	// Mode is that of all rules, and of all guards that have none: policy.Off asks
	// nothing, policy.Shadow denies nothing. Enforce if empty: each rule has its own.
	Mode policy.Mode

	// Rules are by name, each name once.
	Rules []Rule

	// System is asked about every call beside the rule of its own, with one key for the
	// whole program; nil if there is none. Its name is "system", and its key is a
	// policy.Constant, or KeyPart in the place of one.
	System *Rule
}

// A Rule is what holds for the guards and resources of one name.
type Rule struct {
	// Policy has the name, the limits, the mode, the overrides by key and all else that
	// policy.Config says. Its Key is KeyPart alone, and its Match and Settle are empty.
	// Its Cost is that of a call; Guard.EnterN takes a multiple of it. It may have no
	// limits if there are Settings: it is then nil, Name says whose rule it is, and a
	// guard has the limits of its Point.
	Policy *policy.Policy
	Name   string

	// Settings are for Config.Ward. Wards have no shadow: under a Policy or Functions
	// whose Mode is not policy.Enforce they are not asked.
	Settings Settings
}

// systemName is the name of Functions.System.
const systemName = "system"

// Settings are what a rule asks for beside limits. What is nil is not asked for.
type Settings struct {
	Breaker  *Breaker
	Adaptive *Adaptive
	Bulkhead *Bulkhead
}

// A Breaker stops calls for a while after too many of them failed or were slow.
type Breaker struct {
	// Failures of the last Of calls open the breaker; Of is Failures if zero. With Rate
	// instead, from 1 to 100, so many of a hundred calls within Period do, if there were
	// at least Of of them.
	Failures, Of int
	Rate         int
	Period       time.Duration

	// Slow, if not zero, is the duration from which on a call counts as failed.
	Slow time.Duration

	// Cooldown is how long it stays open; then Trials calls try, one if zero, and close
	// it if all of them succeed.
	Cooldown time.Duration
	Trials   int
}

// Adaptive bounds how many calls are under way by how long they take: the bound grows
// while latency stays what it was and shrinks when it rises.
type Adaptive struct {
	Min, Max, Initial int
}

// A Bulkhead bounds how many calls are under way in this process, and how many wait for
// at most Wait.
type Bulkhead struct {
	Max, MaxWaiters int
	Wait            time.Duration
}

// A Ward is something beside limits that has a say about a call: a circuit breaker, say.
// It is safe for concurrent use. Wards are asked after the limits have let a call
// through, so that none of them holds a place for a call that waits for a limit, and
// counts none that a limit denied. If a Ward refuses, what the limits took goes back.
type Protection interface {
	// Name says what it is, such as "breaker".
	Name() string

	// Enter asks it. An error refuses the call; otherwise exit is called once, with what
	// the call returned. If another Ward refuses the call after that, it is called with
	// ErrCalledOff: the call was not made, and neither failed nor succeeded.
	Enter(ctx context.Context, key string) (exit func(err error), err error)

	// State is for people: "closed", "open", "12 of 20".
	State() string
}
