// Package bounds holds the sizes of requests that every store accepts, and no store
// exceeds.
package bounds

import (
	"fmt"
	"time"
)

const (
	// MaxKey is the longest key, in bytes.
	MaxKey = 64 << 10
	// MaxID is the longest reservation id, in bytes.
	MaxID = 256
	// MaxBatch is the largest number of requests decided together.
	MaxBatch = 256
	// MaxTTL is the longest life of a reservation.
	MaxTTL = 30 * 24 * time.Hour
)

// Check validates the arguments of a store's DoAll: the number of requests and of
// decisions, and each request. The error of a number wraps invalid, which is
// weir.ErrInvalid, and names the package of the store.
func Check[R any, P interface {
	*R
	Validate() error
}](store string, invalid error, rs []R, decisions int) error {
	if len(rs) != decisions || len(rs) > MaxBatch {
		return fmt.Errorf("%s: batch: %w: got %d requests and %d decisions, want equal numbers of at most %d", store, invalid, len(rs), decisions, MaxBatch)
	}
	for i := range rs {
		if err := P(&rs[i]).Validate(); err != nil {
			return err
		}
	}
	return nil
}
