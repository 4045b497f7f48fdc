package bounds

import (
	"fmt"
	"strings"
	"time"
)

// Sharing has the fields that the Config of each store in a database has.
type Sharing struct {
	Prefix   string        // of names in the database
	Timeout  time.Duration // of a round trip
	InFlight int           // the most round trips in flight
	MaxBatch int           // the most requests of one
}

const prefixChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

// Or sets the zero fields of s to those of d, and checks all. A prefix has 1 to 32 letters, digits,
// '.', '_', '-' or extra. A timeout is from 1 ms to 1 h, and the numbers from 1 to 1024. The error
// wraps invalid, which is weir.ErrInvalid, and names the package of the store.
func (s *Sharing) Or(d Sharing, store string, invalid error, extra string) error {
	bad := func(field string, value any, want string) error {
		return fmt.Errorf("%s: %s: %w: got %v, want %s", store, field, invalid, value, want)
	}
	if s.Prefix == "" {
		s.Prefix = d.Prefix
	}
	if s.Timeout == 0 {
		s.Timeout = d.Timeout
	}
	if s.InFlight == 0 {
		s.InFlight = d.InFlight
	}
	if s.MaxBatch == 0 {
		s.MaxBatch = d.MaxBatch
	}
	switch {
	case len(s.Prefix) > 32 || strings.Trim(s.Prefix, prefixChars+extra) != "":
		want := "1 to 32 letters, digits, '.', '_' or '-'"
		if extra != "" {
			want = fmt.Sprintf("1 to 32 letters, digits, '.', '_', '-' or '%s'", extra)
		}
		return bad("Prefix", fmt.Sprintf("%.40q", s.Prefix), want)
	case s.Timeout < time.Millisecond || s.Timeout > time.Hour:
		return bad("Timeout", s.Timeout, "1ms to 1h")
	case s.InFlight < 1 || s.InFlight > 1024:
		return bad("InFlight", s.InFlight, "1 to 1024")
	case s.MaxBatch < 1 || s.MaxBatch > 1024:
		return bad("MaxBatch", s.MaxBatch, "1 to 1024")
	}
	return nil
}
