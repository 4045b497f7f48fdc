package memstore

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/floodweir/weir"
)

// A Config adjusts a Store. Its zero value works.
type Config struct {
	// MaxKeys is the largest number of keys, over all limits; DefaultMaxKeys if zero, at
	// most 2^30. A reservation counts as a key, and a state longer than 32 words as one
	// key for each 32 words of its record.
	MaxKeys int

	// Full selects the result of a request for a new key while MaxKeys keys have debt or
	// are in use; Refuse by default.
	Full Full

	// Clock returns the time in µs since the epoch, from 1 on; it is for tests and
	// simulations. Many goroutines call it at once. If it goes back, the store stays at
	// the largest instant that it read. If nil, the store starts at the wall clock and
	// continues by the monotonic clock, so setting the wall clock has no effect.
	Clock func() int64

	// Snapshot is the file that keeps the store between two runs; none if empty. New
	// reads it if it exists, and the store writes it at Close and every SnapshotEvery.
	Snapshot string

	// SnapshotEvery is the time between two snapshots; one minute if zero. If the
	// process dies, the charges since the last snapshot are lost.
	SnapshotEvery time.Duration
}

// Full selects the result of a request for a new key in a full store.
type Full uint8

const (
	// Refuse returns an error that wraps weir.ErrFull.
	Refuse Full = iota
	// Share charges all such keys of one limit to one overflow bucket, as if they were
	// one key. Reserve is refused for them.
	Share
)

// Defaults of a Config.
const (
	DefaultMaxKeys       = 1 << 20
	DefaultSnapshotEvery = time.Minute
)

const (
	maxMaxKeys = 1 << 30

	// keysPerShard is the intended number of keys of a shard: moving so many into a new
	// table takes well below a millisecond.
	keysPerShard = 4096
	// fewKeys is the largest number of keys for one shard.
	fewKeys   = 64
	shardBits = 6 // at least, above fewKeys
	maxShards = 1 << 14
)

// withDefaults returns c with its defaults, or an error.
func (c Config) withDefaults() (Config, error) {
	if c.MaxKeys == 0 {
		c.MaxKeys = DefaultMaxKeys
	}
	if c.SnapshotEvery == 0 {
		c.SnapshotEvery = DefaultSnapshotEvery
	}
	switch {
	case c.MaxKeys < 1 || c.MaxKeys > maxMaxKeys:
		return c, fmt.Errorf("memstore: MaxKeys: %w: want 1 to %d, got %d", weir.ErrInvalid, maxMaxKeys, c.MaxKeys)
	case c.Full > Share:
		return c, fmt.Errorf("memstore: Full: %w: want Refuse or Share, got %d", weir.ErrInvalid, c.Full)
	case c.SnapshotEvery < 0:
		return c, fmt.Errorf("memstore: SnapshotEvery: %w: want a positive duration, got %v", weir.ErrInvalid, c.SnapshotEvery)
	}
	return c, nil
}

// bitsOf returns the number of bits of a hash that select a shard, for so many keys.
func bitsOf(keys int) int {
	if keys <= fewKeys {
		return 0
	}
	return min(max(shardBits, bits.Len(uint(keys-1)/keysPerShard)), bits.Len(maxShards)-1)
}

// New makes a store. It reads the snapshot file if it exists, and otherwise writes the
// first one. A file that is damaged, of another version, or has more keys than MaxKeys
// is an error. Errors of c and of the content of the file wrap weir.ErrInvalid.
func New(c Config) (*Store, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{config: c, hash: newHasher(), bits: bitsOf(c.MaxKeys)}
	s.clock.begin(c.Clock)
	s.full = fmt.Errorf("memstore: %w: MaxKeys is %d, and no key without debt was found", weir.ErrFull, c.MaxKeys)
	s.txns.New = func() any { return new(txn) }
	s.many.New = func() any { return new(many) }
	makeShards(s)
	if c.Snapshot != "" {
		if err := s.resume(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Close writes the snapshot, if there is one to write. Every later request returns an
// error that wraps weir.ErrClosed. Closing again does nothing.
func (s *Store) Close() error {
	if s.closing.Swap(true) {
		return nil
	}
	if s.saver.stop != nil {
		s.saver.stop()
	}
	if s.config.Snapshot == "" {
		return nil
	}
	return s.save(true)
}

var errClosed = fmt.Errorf("memstore: %w", weir.ErrClosed)
