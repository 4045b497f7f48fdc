package sale

import "time"

// Sale offers Stock units of one SKU from StartsAt to EndsAt.
type Sale struct {
	ID       string // assigned by Ledger.Create: lower-case letters and digits
	Merchant string // the name of its merchant
	Draft

	Sold        int64  // units of orders that are pending or paid
	Paid        int64  // units of orders that are paid
	State       State  // see there
	StateReason string // why it is paused or ended: ByMerchant, Killed or Recovering
	Epoch       int64  // epoch of its inventory state; 0 before it is exposed
	Version     int64  // incremented by every change, for compare and set
	CreatedAt   time.Time
}

// Draft holds the settings of a sale. They can be edited until the sale is exposed, and some of
// them until it ends: see Sale.ValidateEdit.
type Draft struct {
	SKU         string        // 1 to 64 characters: letters, digits, . _ -
	Title       string        // 1 to 120 characters, no control characters
	Price       int64         // in the currency's smallest unit, 0 to 10^12
	Currency    string        // ISO 4217; CNY if empty
	Stock       int64         // units, 1 to 1,000,000
	PerUser     int           // units that a user may hold, pending and paid: 1 to 10; 1 if 0
	MaxQuantity int           // units that one order may have: 1 to PerUser; 1 if 0
	StartsAt    time.Time     // whole milliseconds
	EndsAt      time.Time     // after StartsAt, at most 30 days
	Headroom    int           // admission tokens outstanding per unit: 1 to 10; 3 if 0
	Queue       Queue         // Fifo if empty
	Lobby       time.Duration // Shuffled: how long before StartsAt users can join: 0 to 1 h
	PayWithin   time.Duration // time to pay after the reservation: 1 s to 24 h; 15 min if 0
	TokenFor    time.Duration // lifetime of an admission token: 1 s to 10 min; 30 s if 0
	Work        int           // bits of the proof of work for a ticket (pass.Keys.Work): 0 to MaxWork; 0 for none

	// MembersOnly excludes guests: only buyers with an identity get tickets.
	MembersOnly bool

	Campaign string // whose page shows the sale, with the other sales of it: see IsCampaign; none if empty

	Address AddressRule // whether orders have a delivery address; NoAddress if empty
}

// Queue is the order in which tickets are admitted.
type Queue string

const (
	// Fifo admits in the order in which users joined, from the start of the sale on.
	Fifo Queue = "fifo"

	// Shuffled admits those who joined before the start (see Draft.Lobby) in random order, and
	// then the others in the order in which they joined.
	Shuffled Queue = "shuffled"

	// Direct has no queue: users are refused while all admission tokens are outstanding.
	Direct Queue = "direct"
)

// State is the state of a sale.
type State string

const (
	Drafted State = "draft"   // visible to its merchant alone
	Exposed State = "exposed" // visible to buyers, who can buy from StartsAt on
	Paused  State = "paused"  // visible; nothing is admitted or reserved
	Ended   State = "ended"   // final
)

// The reasons why a sale is paused or ended (Sale.StateReason).
const (
	ByMerchant = "merchant" // Paused or Ended by its merchant, or Ended at EndsAt
	Killed     = "killed"   // Ended by the kill switch
	Recovering = "recovery" // Paused until its inventory is recovered
)

// Phase is the state of a sale as buyers see it.
type Phase string

const (
	Upcoming    Phase = "upcoming"  // before its start (and its lobby)
	InLobby     Phase = "lobby"     // before its start; users can join
	Open        Phase = "open"      // units are free
	AllTaken    Phase = "all_taken" // no unit is free; unpaid ones may return
	SoldOut     Phase = "sold_out"  // every unit is paid
	PhasePaused Phase = "paused"
	PhaseEnded  Phase = "ended"
)

// PhaseAt returns the phase of s at now, when free units are free.
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
