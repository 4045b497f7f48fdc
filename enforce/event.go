package enforce

import (
	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// An Event says what became of a request under one policy.
type Event struct {
	// Policy is the policy; of a candidate, one of the candidate's name.
	Policy  *policy.Policy
	Outcome Outcome

	// Shadow is true if the policy was tried out on this request: the outcome is what
	// would have become of it.
	Shadow bool

	// Key is the key that was asked about. It holds what the client sent: quote it
	// in logs, and do not make it a label of metrics.
	Key string

	// Cost is what the request took, or would have taken, of each limit of the policy;
	// of a policy that counts by the result, what was reserved.
	Cost int64

	// Decision is that of the policy's limit which decided; zero if none did.
	Decision weir.Decision

	// Err is why the store made no decision. With Decision.Degraded policy.Local,
	// Config.Local made it instead. Of a caller that went away before a decision it is
	// the cause of the end of the request's context.
	Err error

	// Fault is why an expression of the policy could not be evaluated. The request was
	// decided all the same: see package policy.
	Fault error
}

// An Outcome is what became of a request under one policy, or under all of them. Under
// a policy in shadow it is what would have.
type Outcome string

// The outcomes. All but Unsettled are told before the request goes on.
const (
	// Admitted is a request that went through, or that left in a queue's delay after it
	// was told so.
	Admitted Outcome = "admitted"
	// Denied is a request that this policy denied, at once or after a wait.
	Denied Outcome = "denied"
	// Held is a request that this policy would have admitted, or let through undecided,
	// and another denied. It took nothing.
	Held Outcome = "held"
	// FailedOpen is a request that went through undecided.
	FailedOpen Outcome = "failed_open"
	// FailedClosed is a request that was refused undecided.
	FailedClosed Outcome = "failed_closed"
	// Unsettled is told beside the outcome of a request whose cost, known only after
	// it was decided, could not be charged or given back; Err says why. What it had
	// reserved goes back by itself.
	Unsettled Outcome = "unsettled"
)

// Passes reports whether a request of that outcome goes through.
func (o Outcome) Passes() bool { return o == Admitted || o == FailedOpen }
