package sale

// A Reason says why something was refused. Buyers see it, so it is a stable word.
type Reason string

const (
	OK               Reason = ""
	NotStarted       Reason = "not_started"
	HasEnded         Reason = "ended"
	IsPaused         Reason = "paused"
	IsSoldOut        Reason = "sold_out"     // every unit is paid
	IsAllTaken       Reason = "all_taken"    // no unit is free now
	PerUserLimit     Reason = "per_user"     // the user holds as many as one may, or has got and returned very many
	NotAdmitted      Reason = "not_admitted" // the ticket is not admitted: it waits, or is another user's, or of another epoch
	AdmissionExpired Reason = "turn_passed"  // the ticket was admitted, but its time is over
	BadToken         Reason = "bad_token"    // forged, damaged, or another user's
	WorkRequired     Reason = "work_due"     // a ticket of this sale costs work that is not done
	QueueFull        Reason = "queue_full"
	NoAdmission      Reason = "no_admission" // a Direct sale: all admission tokens are out
	Overloaded       Reason = "overloaded"
)

// A Layer is who refuses.
type Layer string

const (
	L0 Layer = "L0"    // the sale is not open: a constant answer
	L1 Layer = "L1"    // the address asks too often
	L2 Layer = "L2"    // the user asks too often
	L3 Layer = "L3"    // admission: tokens, the line
	L4 Layer = "L4"    // the system is busy
	LS Layer = "stock" // admitted, but no unit was free, or the user has enough
)
