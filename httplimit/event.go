package httplimit

import "github.com/floodweir/weir/gate"

// An Event says what became of a request under one policy.
type Event = gate.Event

// An Outcome is what became of a request under one policy. Under a policy in shadow it
// is what would have.
type Outcome = gate.Outcome

// The outcomes, as package gate has them. All but Unsettled are told before the handler
// runs.
const (
	Admitted     = gate.Admitted
	Denied       = gate.Denied
	Held         = gate.Held
	FailedOpen   = gate.FailedOpen
	FailedClosed = gate.FailedClosed
	Unsettled    = gate.Unsettled
)
