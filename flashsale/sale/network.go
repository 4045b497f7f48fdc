package sale

import "time"

// A NetworkUse is from where a user bought.
type NetworkUse struct {
	Sale, User string
	Network    string // an address; of IPv6, its first 64 bits
	At         time.Time
}

// A Network is one from which several users bought at a sale: a household, an office, a
// carrier's gateway, or one person with many accounts.
type SharedNetwork struct {
	Network string
	Users   int64 // who bought from there
	Orders  int64 // of these users at the sale, pending or paid
}
