package sale

import "time"

// A Sale offers Stock units of one SKU for a time.
type Sale struct {
	ID       string // what Ledger.Create gives it: lower-case letters and digits
	Merchant string // the name of the merchant whose it is
	Draft

	Sold        int64  // units of orders that are pending or paid
	Paid        int64  // units of orders that are paid
	State       State  // see there
	StateReason string // why it is paused: see Pause
	Epoch       int64  // counts the states that its Inventory had; 0 before it is exposed
	Version     int64  // counts changes, for compare and set
	CreatedAt   time.Time
}

// A Draft is what a merchant says of a sale. Until it is exposed all of it can be edited.
type Draft struct {
	SKU       string        // 1 to 64 characters: letters, digits, . _ -
	Title     string        // 1 to 120 characters, no control characters
	Price     int64         // in the currency's smallest unit, 0 to 10^12
	Currency  string        // ISO 4217; CNY if empty
	Stock     int64         // units, 1 to 1,000,000
	PerUser   int           // units that a user may hold, pending and paid: 1 to 10; 1 if 0
	StartsAt  time.Time     // whole milliseconds
	EndsAt    time.Time     // after StartsAt, at most 30 days
	Headroom  int           // k: admission tokens out at once, per unit: 1 to 10; 3 if 0
	Queue     Queue         // Fifo if empty
	Lobby     time.Duration // Shuffled: how long before StartsAt one may join: 0 to 1 h
	PayWithin time.Duration // from the reservation on: 1 s to 24 h; 15 min if 0
	TokenFor  time.Duration // how long an admission token is valid: 1 s to 10 min; 30 s if 0
	Work      int           // bits of work that a ticket costs (pass.Keys.Work): 0 to MaxWork; 0 is none
}

// A Queue says how buyers line up.
type Queue string

const (
	// Fifo serves in the order in which they joined, from the start of the sale on.
	Fifo Queue = "fifo"

	// Shuffled draws lots among those who joined before the start (see Draft.Lobby), and
	// puts those who come later behind them in the order in which they joined.
	Shuffled Queue = "shuffled"

	// Direct has no line: who comes while all admission tokens are out is refused.
	Direct Queue = "direct"
)

// A State of a sale.
type State string

const (
	Drafted State = "draft"   // only its merchant sees it
	Exposed State = "exposed" // buyers see it, and can buy when its time has come
	Paused  State = "paused"  // buyers see it, and nothing is admitted or reserved
	Ended   State = "ended"   // for ever
)

// Why a sale is paused or ended (Sale.Why).
const (
	ByMerchant = "merchant" // the merchant's word, for Paused and Ended
	Killed     = "killed"   // the kill switch: Ended at once
	Recovering = "recovery" // its Inventory is being built again; reopens by itself
)

// Phase is what buyers are told of a sale.
type Phase string

const (
	Upcoming    Phase = "upcoming"  // before its start (and its lobby)
	InLobby     Phase = "lobby"     // before its start; one may join
	Open        Phase = "open"      // units are free
	AllTaken    Phase = "all_taken" // no unit is free, but some are not paid yet and may return
	SoldOut     Phase = "sold_out"  // every unit is paid
	PhasePaused Phase = "paused"
	PhaseEnded  Phase = "ended"
)

// PhaseAt is the phase of s at now when free units are free in its Inventory.
func (s *Sale) PhaseAt(now time.Time, free int64) Phase {
	switch {
	case s.State == Ended || !now.Before(s.EndsAt):
		return PhaseEnded
	case s.State != Exposed:
		return PhasePaused
	case s.Paid >= s.Stock:
		return SoldOut
	case now.Before(s.StartsAt):
		if s.Queue == Shuffled && !now.Before(s.StartsAt.Add(-s.Lobby)) {
			return InLobby
		}
		return Upcoming
	case free <= 0:
		return AllTaken
	}
	return Open
}
