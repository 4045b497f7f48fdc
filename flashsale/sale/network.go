package sale

import "time"

// NetworkUse records from which network a user bought.
type NetworkUse struct {
	Sale, User string
	Network    string // an IPv4 address, or the first 64 bits of an IPv6 address
	At         time.Time
}

// SharedNetwork is a network from which several users bought at a sale: a household, an
// office, a carrier's gateway, or one person with many accounts.
type SharedNetwork struct {
	Network string
	Users   int64 // users who bought from it
	Orders  int64 // pending and paid orders of these users at the sale
}
