package sale

// Reason is why a request was refused. Clients read it, so its values are stable.
type Reason string

const (
	OK               Reason = ""
	NotStarted       Reason = "not_started"
	HasEnded         Reason = "ended"
	IsPaused         Reason = "paused"
	IsSoldOut        Reason = "sold_out"     // every unit is paid
	IsAllTaken       Reason = "all_taken"    // no unit is free now
	FewLeft          Reason = "few_left"     // fewer units are free than the user wants
	PerUserLimit     Reason = "per_user"     // the user would hold more units than allowed, or left MaxUnpaid unpaid
	NotAdmitted      Reason = "not_admitted" // the ticket waits, is another user's, or is of another epoch
	AdmissionExpired Reason = "turn_passed"  // the ticket was admitted and did not reserve in time
	BadToken         Reason = "bad_token"    // forged, damaged, or another user's
	WorkRequired     Reason = "work_due"     // a ticket of this sale requires a proof of work
	SignInRequired   Reason = "sign_in"      // this sale is for members only, and the user is a guest
	CaptchaRequired  Reason = "captcha_due"  // a ticket of this sale requires a solved captcha
	QueueFull        Reason = "queue_full"
	NoAdmission      Reason = "no_admission" // a Direct sale: all admission tokens are outstanding
	Overloaded       Reason = "overloaded"
)

// Layer is the part of the system that refused a request.
type Layer string

const (
	L0 Layer = "L0"    // the sale is not open; decided from memory
	L1 Layer = "L1"    // too many requests of an address
	L2 Layer = "L2"    // too many requests of a user
	L3 Layer = "L3"    // admission: queue and tokens
	L4 Layer = "L4"    // too many requests in progress
	LS Layer = "stock" // admitted, but no unit is free or the user holds PerUser
)
