package enforce

import (
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// An Event has the outcome of a request for one policy.
type Event struct {
	// Policy is the policy, or the candidate of a policy.
	Policy  *policy.Policy
	Outcome Outcome

	// Shadow is true if the policy is not enforced for this request.
	Shadow bool

	// Key is the key of the request. Clients choose it: quote it in logs, and do not use it
	// as a label of metrics.
	Key string

	// Cost is the number of tokens charged to each limit of the policy, or in shadow mode
	// the number that would be. For a policy that counts by the result it is the
	// reservation.
	Cost int64

	// Decision is the decision of the limit that counts; zero if none was made.
	Decision weir.Decision

	// Err is the error because of which the store made no decision. If Decision.Degraded is
	// local, Config.Local made it. For a canceled request it is the cause of its context.
	Err error

	// Took is the time of the store's decision on the policies of a request that are decided
	// together. It is in the event of the first of them, and zero in the others.
	Took time.Duration

	// Fault is the error of an expression of the policy, or nil. Package policy describes
	// the decision in that case.
	Fault error
}

// An Outcome is the result of a request for one policy, or for all of them. For a policy in
// shadow mode it is the result that the policy would have had.
type Outcome string

// The outcomes. All but Unsettled, Unpriced, Exhausted and Settled are reported before the request
// is handled.
const (
	// Admitted requests passed, or were canceled during the delay of a queue.
	Admitted Outcome = "admitted"
	// Denied requests were denied by this policy, at once or after a wait.
	Denied Outcome = "denied"
	// Held requests were denied by another policy. This policy would have admitted them,
	// and did not charge them.
	Held Outcome = "held"
	// FailedOpen requests were admitted without a decision.
	FailedOpen Outcome = "failed_open"
	// FailedClosed requests were refused without a decision: by OnStoreError, because the
	// client canceled, or because they match more limits than a store decides together.
	FailedClosed Outcome = "failed_closed"
	// Overloaded requests were refused whatever OnStoreError is, because this process is
	// overloaded; Err wraps weir.ErrOverloaded.
	Overloaded Outcome = "overloaded"
	// Unsettled is reported in addition to the outcome, for a request whose cost became
	// known after the decision and could not be charged or returned; Err is the reason. Its
	// reservation expires.
	Unsettled Outcome = "unsettled"
	// Unpriced is reported in addition to the outcome, for a request whose response had no
	// cost, and for one that is denied because its model has no price. Cost is what it was
	// charged. Err is the reason: see budget.Reason.
	Unpriced Outcome = "unpriced"
	// Exhausted is reported in addition to the outcome, for a stream whose policy denied a
	// further step: see Admission.Extend.
	Exhausted Outcome = "exhausted"
	// Settled is reported in addition to the outcome, at the end of a request, for each limit of
	// a policy whose Settle.Meter has a Warn. Cost is what the request was charged, and Decision
	// is the state after it.
	Settled Outcome = "settled"
)

// AtEnd reports whether the outcome is reported in addition to another.
func (o Outcome) AtEnd() bool {
	return o == Unsettled || o == Unpriced || o == Exhausted || o == Settled
}

// Passes reports whether a request with the outcome is admitted.
func (o Outcome) Passes() bool { return o == Admitted || o == FailedOpen }
