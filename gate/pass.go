package gate

import (
	"context"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// A Gate asks about the policies of a set.
type Gate struct{}

// New makes a gate that asks store about the policies of set. An error wraps
// weir.ErrInvalid.
func New(store weir.Store, set *policy.Set, c Config) (*Gate, error) { panic("soon") }

// A Pass is one request at a gate: what was asked and answered, and what it holds until
// it exits. The zero value is ready for Enter. One that has exited, or never passed, may
// be used again, which saves allocations.
type Pass struct{}

// Enter asks about the request that a describes, and waits as the policies say. It
// returns one of Admitted, Denied, FailedOpen and FailedClosed. A request under no
// policy is Admitted. The caller that passes calls p.Exit once it is done, if
// p.Holds. A queue's delay has passed when Enter returns. If ctx ends first, the
// outcome is FailedClosed, p.Err is its cause, and nothing stays taken.
//
// p.Asks, p.Decisions and what they hold are good until p is used again.
func (g *Gate) Enter(ctx context.Context, a policy.Attributes, p *Pass) Outcome { panic("soon") }

// Outcome is what Enter returned.
func (p *Pass) Outcome() Outcome { panic("soon") }

// Err is why the store made no decision, or nil.
func (p *Pass) Err() error { panic("soon") }

// Asks are the questions of the enforced policies.
func (p *Pass) Asks() []policy.Ask { panic("soon") }

// Decisions are the decisions about one of Asks, one for each limit.
func (p *Pass) Decisions(a *policy.Ask) []weir.Decision { panic("soon") }

// Decision is the decision that counts: of a denied request the one that holds it back
// longest, otherwise the one with the smallest share left. It has no Limit if none was
// made.
func (p *Pass) Decision() weir.Decision { panic("soon") }

// Denier is the policy that denied the request, or nil.
func (p *Pass) Denier() *policy.Policy { panic("soon") }

// Holds reports whether the request holds something that Exit has to give back or
// settle.
func (p *Pass) Holds() bool { panic("soon") }

// Exit gives back and settles what the request holds. Exiting again, and exiting what
// holds nothing, does nothing.
func (p *Pass) Exit(r Result) { panic("soon") }

// Cancel gives everything back, as if the request had never been.
func (p *Pass) Cancel() { panic("soon") }
