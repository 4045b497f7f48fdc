package httplimit

import "github.com/floodweir/weir/enforce"

// An Event says what became of a request under one policy.
type Event = enforce.Event

// An Outcome is what became of a request under one policy. Under a policy in shadow it
// is what would have.
type Outcome = enforce.Outcome

// The outcomes, as package gate has them. All but Unsettled are told before the handler
// runs.
const (
	Admitted     = enforce.Admitted
	Denied       = enforce.Denied
	Held         = enforce.Held
	FailedOpen   = enforce.FailedOpen
	FailedClosed = enforce.FailedClosed
	Unsettled    = enforce.Unsettled
)
