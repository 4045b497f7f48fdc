package sale

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Validate returns an error that wraps ErrInvalid if no inventory can accept j. A user is 1 to
// 128 bytes of UTF-8, a batch at most 64 bytes.
func (j JoinRequest) Validate() error {
	switch {
	case !isUser(j.User):
		return invalid("JoinRequest.User", j.User, "1 to 128 bytes of UTF-8")
	case !IsID(j.Ticket):
		return invalid("JoinRequest.Ticket", j.Ticket, "16 to 64 letters, digits, -")
	case j.Rank < 0 || j.Rank > 1<<53:
		return invalid("JoinRequest.Rank", j.Rank, "0 to 2^53")
	case j.Lot < 0 || j.Lot > MaxLot:
		return invalid("JoinRequest.Lot", j.Lot, "0 to MaxLot")
	case j.Max < 0:
		return invalid("JoinRequest.Max", j.Max, "0 or more")
	case len(j.Batch) > 64:
		return invalid("JoinRequest.Batch", j.Batch, "at most 64 bytes")
	case j.Batch != "" && j.Until.IsZero():
		return invalid("JoinRequest.Until", j.Until, "a time, as there is a Batch")
	case j.Reservation != "" && !IsID(j.Reservation):
		return invalid("JoinRequest.Reservation", j.Reservation, "empty, or 16 to 64 letters, digits, -")
	case j.MaxBacklog < 0:
		return invalid("JoinRequest.MaxBacklog", j.MaxBacklog, "0 or more")
	case j.MaxUnits < 0:
		return invalid("JoinRequest.MaxUnits", j.MaxUnits, "0 or more")
	case !isQuantity(j.Quantity):
		return invalid("JoinRequest.Quantity", j.Quantity, quantities)
	}
	return nil
}

// Validate returns an error that wraps ErrInvalid if no inventory can accept p.
func (p PollRequest) Validate() error {
	switch {
	case !isUser(p.User):
		return invalid("PollRequest.User", p.User, "1 to 128 bytes of UTF-8")
	case p.Reservation != "" && !IsID(p.Reservation):
		return invalid("PollRequest.Reservation", p.Reservation, "empty, or 16 to 64 letters, digits, -")
	case p.MaxBacklog < 0:
		return invalid("PollRequest.MaxBacklog", p.MaxBacklog, "0 or more")
	case p.MaxUnits < 0:
		return invalid("PollRequest.MaxUnits", p.MaxUnits, "0 or more")
	case !isQuantity(p.Quantity):
		return invalid("PollRequest.Quantity", p.Quantity, quantities)
	}
	return nil
}

// Validate returns an error that wraps ErrInvalid if no inventory can accept a. A user is 1 to
// 128 bytes of UTF-8, a key at most 64.
func (a ReserveRequest) Validate() error {
	switch {
	case !isUser(a.User):
		return invalid("ReserveRequest.User", a.User, "1 to 128 bytes of UTF-8")
	case !IsID(a.Ticket):
		return invalid("ReserveRequest.Ticket", a.Ticket, "16 to 64 letters, digits, -")
	case !isStoredKey(a.Key):
		return invalid("ReserveRequest.Key", a.Key, "at most 64 bytes of UTF-8")
	case !IsID(a.Reservation):
		return invalid("ReserveRequest.Reservation", a.Reservation, "16 to 64 letters, digits, -")
	case a.MaxUnits < 0:
		return invalid("ReserveRequest.MaxUnits", a.MaxUnits, "0 or more")
	case !isQuantity(a.Quantity):
		return invalid("ReserveRequest.Quantity", a.Quantity, quantities)
	}
	return nil
}

// Validate returns an error that wraps ErrInvalid if no inventory can have made r. Its Slot is
// not checked.
func (r Reservation) Validate() error {
	switch {
	case !isUser(r.User):
		return invalid("Reservation.User", r.User, "1 to 128 bytes of UTF-8")
	case r.Epoch < 1 || r.Epoch > 1<<53:
		return invalid("Reservation.Epoch", r.Epoch, "1 to 2^53")
	case !IsID(r.ID):
		return invalid("Reservation.ID", r.ID, "16 to 64 letters, digits, -")
	case !IsID(r.Ticket):
		return invalid("Reservation.Ticket", r.Ticket, "16 to 64 letters, digits, -")
	case !isStoredKey(r.Key):
		return invalid("Reservation.Key", r.Key, "at most 64 bytes of UTF-8")
	case !isQuantity(r.Quantity):
		return invalid("Reservation.Quantity", r.Quantity, quantities)
	case r.At.UnixMilli() < 0 || r.PayBy.Before(r.At):
		return invalid("Reservation.PayBy", r.PayBy, "a time after At, both after 1970")
	}
	return nil
}

// Validate returns an error that wraps ErrInvalid if o is not valid. Its Draft must have its
// defaults. Reserved and Pending together need at most Stock units, those of a user at most
// PerUser. Each reservation needs a slot of its user, from 1 to PerUser.
func (o *InitialState) Validate() error {
	s := &o.Sale
	switch {
	case s.ID == "" || len(s.ID) > 64:
		return invalid("InitialState.Sale.ID", s.ID, "1 to 64 bytes")
	case s.Epoch < 1:
		return invalid("InitialState.Sale.Epoch", s.Epoch, "1 or more")
	case s.Stock < 0:
		return invalid("InitialState.Sale.Stock", s.Stock, "0 or more")
	case s.PerUser < 1:
		return invalid("InitialState.Sale.PerUser", s.PerUser, "1 or more")
	case s.PayWithin < time.Millisecond:
		return invalid("InitialState.Sale.PayWithin", s.PayWithin, "1 ms or more")
	case s.Lobby < 0:
		return invalid("InitialState.Sale.Lobby", s.Lobby, "0 or more")
	case s.Headroom < 0 || s.TokenFor < 0:
		return invalid("InitialState.Sale.Headroom", s.Headroom, "0 or more, as TokenFor")
	case !s.StartsAt.Before(s.EndsAt):
		return invalid("InitialState.Sale.EndsAt", s.EndsAt, "a time after StartsAt")
	case o.Units() > s.Stock:
		return invalid("InitialState.Reserved", o.Units(), fmt.Sprintf("at most %d units, the stock, with Pending", s.Stock))
	}
	for user, n := range o.Unpaid {
		if !isUser(user) || n < 1 || n > 1<<30 {
			return invalid("InitialState.Unpaid", fmt.Sprintf("%s: %d", user, n), "1 or more for each user")
		}
	}
	type slot struct {
		user string
		n    int
	}
	ids := make(map[string]bool, len(o.Reserved)+len(o.Pending))
	slots := make(map[slot]bool, len(o.Reserved)+len(o.Pending))
	units := make(map[string]int64)
	for _, rs := range [][]Reservation{o.Reserved, o.Pending} {
		for _, r := range rs {
			at := slot{r.User, r.Slot}
			switch {
			case !isUser(r.User) || !IsID(r.ID) || !IsID(r.Ticket) || !isStoredKey(r.Key) || r.Sale != s.ID:
				return invalid("InitialState.Reserved", r.ID, "reservations of this sale, each with ID, user and ticket")
			case ids[r.ID]:
				return invalid("InitialState.Reserved", r.ID, "each reservation once")
			case r.Slot < 1 || r.Slot > s.PerUser || slots[at]:
				return invalid("InitialState.Reserved", fmt.Sprintf("%s on slot %d", r.ID, r.Slot), "a slot from 1 to PerUser for each")
			case !isQuantity(r.Quantity) || units[r.User]+r.Units() > int64(s.PerUser):
				return invalid("InitialState.Reserved", fmt.Sprintf("%s of %d units", r.ID, r.Quantity), "at most PerUser units for each user")
			}
			ids[r.ID], slots[at] = true, true
			units[r.User] += r.Units()
		}
	}
	return nil
}

// Units returns the number of units of Reserved and Pending.
func (o *InitialState) Units() int64 {
	n := int64(0)
	for _, rs := range [][]Reservation{o.Reserved, o.Pending} {
		for i := range rs {
			n += rs[i].Units()
		}
	}
	return n
}

// IsID reports whether s can be the ID of a ticket or a reservation: 16 to 64 letters, digits, -.
func IsID(s string) bool {
	if len(s) < 16 || len(s) > 64 {
		return false
	}
	for _, c := range []byte(s) {
		if !isAlnum(c) && c != '-' {
			return false
		}
	}
	return true
}

// IsWorkerName reports whether s is valid for Inventory.Next: 1 to 64 letters, digits, . _ -.
func IsWorkerName(s string) bool {
	if len(s) < 1 || len(s) > 64 {
		return false
	}
	for _, c := range []byte(s) {
		if !isAlnum(c) && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return true
}

// MaxQuantity is the largest Draft.MaxQuantity and Draft.PerUser.
const MaxQuantity = 10

const quantities = "1 to 10, or 0 for 1"

func isQuantity(n int) bool { return n >= 0 && n <= MaxQuantity }

// MaxKey is the maximum length of an Idempotency-Key.
const MaxKey = 64

// IsKey reports whether s is empty or an Idempotency-Key: up to MaxKey printable ASCII
// characters.
func IsKey(s string) bool {
	return len(s) <= MaxKey && strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isUser(s string) bool { return s != "" && len(s) <= 128 && utf8.ValidString(s) }

// isStoredKey reports whether an inventory can store a key.
func isStoredKey(s string) bool { return len(s) <= MaxKey && utf8.ValidString(s) }

func invalid(field string, value any, want string) error {
	return fmt.Errorf("sale: %s: got %#v, want %s: %w", field, value, want, ErrInvalid)
}
