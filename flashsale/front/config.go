package front

import "time"

// A Config says what stands before what.
type Config struct {
	// Listen is where buyers come, Shop where the shop listens: HOST:PORT. Required.
	Listen, Shop string

	// Weir is where `weir serve` listens for the questions of nginx: HOST:PORT. Required
	// for Asking.
	Weir string

	// Admin is where the gateway shows its metrics: HOST:PORT; shut if empty.
	Admin string

	// Store is where the counts are: memory if empty, or the URL of a Redis. Required for
	// Lua.
	Store string

	// Trusted are the addresses and networks of proxies in front of this one, whose
	// X-Forwarded-For is believed.
	Trusted []string

	// Sales that are admitted to in front; the others pass.
	Sales []Sale

	// Killed refuses all that would change something in all sales, with 503.
	Killed bool

	// Address and User are the limits per address and per user; 20/s burst 40 and
	// 2/s burst 5 if empty. "off" leaves one out.
	Address, User string
}

// A Sale is admitted to in front of the shop: for sales without a line.
type Sale struct {
	ID string

	// Tokens is how many tickets the shop may give out at once: k × stock. Period is how
	// long a unit can be held without being paid: in that time as many come back. Both
	// required.
	Tokens int64
	Period time.Duration

	// Check demands that orders show the shape of an admission token in Flashsale-Token.
	Check bool

	// Killed refuses all that would change something in this sale.
	Killed bool
}
