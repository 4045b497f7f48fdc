package guard

import (
	"context"
	"net/http"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/gate"
	"github.com/floodweir/weir/policy"
)

// A Config says where the guards of a Registry keep their state and what their limits
// are. Its zero value keeps it in memory and leaves every guard its own limits.
type Config struct {
	// Store keeps the state. A memory store of the registry's own if nil, which stays
	// the same one when the registry is configured again.
	Store weir.Store

	// Local decides for rules whose OnStoreError is policy.Local while Store does not:
	// see package failover. It is required if there is one.
	Local weir.Store

	// Functions are the rules of guards and resources by name; none if nil.
	Functions *Functions

	// Ward makes what a rule asks for beside limits: see package contrib/failsafe. It
	// is required if a rule asks for one. A ward whose rule did not change is kept when
	// the registry is configured again.
	Ward func(name string, s Settings) ([]Ward, error)

	// Observe, if not nil, is told what became of a call, once for each rule that it
	// falls under. It is called before the function and has to be quick.
	Observe func(ctx context.Context, name string, e gate.Event)

	// MaxWaiting is how many calls may be held back at a time; gate.DefaultMaxWaiting
	// if zero.
	MaxWaiting int
}

// Functions are what the section functions of a policy file says.
type Functions struct {
	// Mode is that of all rules, and of all guards that have none: policy.Off asks
	// nothing, policy.Shadow denies nothing. Enforce if empty.
	Mode policy.Mode

	// Rules are by name, each name once.
	Rules []Rule

	// System is asked about every call beside the rule of its own, with one key for the
	// whole program; nil if there is none. Its name is "system".
	System *Rule
}

// A Rule is what holds for the guards and resources of one name.
type Rule struct {
	// Policy has the name, the limits, the mode, the overrides by key and all else that
	// policy.Config says. Its Key is KeyPart alone, and its Match and Settle are empty.
	// It may have no limits if there are Settings: it is then nil, and Name says whose
	// rule it is.
	Policy *policy.Policy
	Name   string

	// Settings are for Config.Ward.
	Settings Settings
}

// KeyPart is the part of a rule's key: what the caller of Enter names, once.
func KeyPart() policy.KeyPart { panic("soon") }

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
	Max, MaxWaiting int
	Wait            time.Duration
}

// A Ward is something beside limits that has a say about a call: a circuit breaker, say.
// It is safe for concurrent use.
type Ward interface {
	// Name says what it is, such as "breaker".
	Name() string

	// Enter asks it. An error refuses the call; otherwise exit is called once, with what
	// the call returned.
	Enter(ctx context.Context, key string) (exit func(err error), err error)

	// State is for people: "closed", "open", "12 of 20".
	State() string
}

// A Registry knows guards. It is safe for concurrent use.
type Registry struct{}

// NewRegistry makes a registry. An error wraps weir.ErrInvalid.
func NewRegistry(c Config) (*Registry, error) { panic("soon") }

// Default is the registry of the process: that of guards in generated code.
func Default() *Registry { panic("soon") }

// Configure puts another configuration into force for all guards, those that are made
// later included. Calls that are under way go on. A key keeps what it owes under limits
// that change: see policy.Set.Following. An error wraps weir.ErrInvalid, and nothing has
// changed.
func (r *Registry) Configure(c Config) error { panic("soon") }

// A Point describes a guard: a place in a program where a limit is asked about. Name is
// required.
type Point struct {
	// Name is what rules and keys know the guard by, in the form of policy.Config.Name.
	// Guards of one name share their buckets and have to have the same limits.
	Name string

	// Limits are those unless a rule says otherwise; DefaultLimit if none.
	Limits []weir.Limit

	// Message is that of Denied; "rate limit exceeded" if empty.
	Message string

	// Wait holds a denied call back for at most so long; none if zero. A rule says
	// otherwise if it has a wait of its own.
	Wait time.Duration

	// Answered says that somebody answers for the store when it makes no decision: see
	// Undecided.
	Answered bool

	// Where the guard stands, for people.
	Function string // such as "example.com/shop.(*Service).GetID"
	File     string
	Line     int
	Made     Made
}

// DefaultLimit is the limit of a Point that has none: 100 in 60 seconds, counted from
// the first call.
func DefaultLimit() weir.Limit { panic("soon") }

// Made says how a guard came to be.
type Made string

const (
	// ByHand is a guard that the program makes itself.
	ByHand Made = ""
	// Generated is one in code that weir generate wrote.
	Generated Made = "generated"
	// Woven is one in code that weir go wove in.
	Woven Made = "woven"
)

// A Status is what a Registry tells of a guard or a resource.
type Status struct {
	Name     string
	Function string
	File     string
	Line     int
	Made     Made
	Limits   []weir.Limit // in force; none of a resource without a rule
	Rule     bool         // that they come from Config.Functions
	Mode     policy.Mode
	Wards    map[string]string // their states by name

	Passed, Denied, Undecided, Failed, Running int64
	Busy                                       time.Duration // the time of all calls that are done
}

// Live are the guards, and the resources that Enter was asked for, by name. One of which
// Limits are empty limits nobody. Rules that nothing asks about have Function "" and a
// Passed and Denied of 0.
func (r *Registry) Live() []Status { panic("soon") }

// ServeHTTP answers with Live as JSON. What it tells is for operators: mount it where
// only they come.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) { panic("soon") }
