package payments

import (
	"fmt"
	"slices"
)

// Kind names what happened to a payment. A lower one never overwrites a higher one, so events can
// arrive in any order.
type Kind int

const (
	Pending      Kind = iota // the buyer has not completed it
	Failed                   // an attempt failed; the buyer can try again
	Closed                   // no money can arrive any more
	Paid                     // money arrived
	Refunded                 // money was returned
	RefundFailed             // money could not be returned
)

var kinds = []string{"pending", "failed", "closed", "paid", "refunded", "refund_failed"}

// String returns the name of the kind in the HTTP form.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kinds) {
		return fmt.Sprintf("kind %d", int(k))
	}
	return kinds[k]
}

// MarshalText implements encoding.TextMarshaler.
func (k Kind) MarshalText() ([]byte, error) {
	if k < 0 || int(k) >= len(kinds) {
		return nil, fmt.Errorf("payments: kind: got %d, want 0 to %d", int(k), len(kinds)-1)
	}
	return []byte(kinds[k]), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Kind) UnmarshalText(text []byte) error {
	i := slices.Index(kinds, string(text))
	if i < 0 {
		return fmt.Errorf("payments: kind: got %.40q, want one of %v", text, kinds)
	}
	*k = Kind(i)
	return nil
}
