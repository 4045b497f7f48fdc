package httplimit

import (
	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// An Event says what became of a request under one policy.
type Event struct {
	Policy  *policy.Policy
	Outcome Outcome

	// Key is the key that was asked about. It holds what the client sent: quote it
	// in logs, and do not make it a label of metrics.
	Key string

	// Decision is that of the policy's limit which decided; zero if Err is set.
	Decision weir.Decision

	// Err is why the store made no decision.
	Err error
}

// An Outcome is what became of a request under one policy. Under a Shadow policy it
// is what would have.
type Outcome string

// The outcomes.
const (
	// Admitted is a request that went through.
	Admitted Outcome = "admitted"
	// Denied is a request that this policy denied.
	Denied Outcome = "denied"
	// Held is a request that this policy would have admitted and another denied. It
	// took nothing.
	Held Outcome = "held"
	// FailedOpen is a request that went through undecided.
	FailedOpen Outcome = "failed_open"
	// FailedClosed is a request that was refused undecided.
	FailedClosed Outcome = "failed_closed"
)
