package memstore

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore/internal/table"
)

// A Config adjusts a Store. Its zero value works.
type Config struct {
	// MaxKeys is the most keys that the store knows at once, over all limits;
	// DefaultMaxKeys if zero, at most 2^30. A reservation counts as a key, and a
	// state longer than 32 words as one key for each 32 words of its room.
	MaxKeys int

	// Full is what a new key meets when MaxKeys keys are known and owe; Refuse by
	// default.
	Full Full

	// Clock is the store's clock, in µs since the epoch, from 1 on. It may be read
	// by many goroutines at once; if it goes back, the store stays at the largest
	// instant that it read. If nil, the store begins at the wall clock's time and
	// goes on by the monotonic clock: it doesn't see the wall clock being set.
	Clock func() int64

	// Snapshot is the file in which the store is kept while it doesn't run; none if
	// empty. It is read by New if it exists, and written by Close and every
	// SnapshotEvery.
	Snapshot string

	// SnapshotEvery is the time between two snapshots: what is charged in it is
	// forgotten if the process dies. One minute if zero.
	SnapshotEvery time.Duration
}

// Full says what happens to a new key when the store is full of keys that owe.
type Full uint8

const (
	// Refuse decides nothing: an error wraps weir.ErrFull.
	Refuse Full = iota
	// Share decides all such keys of one limit by one state, as if they were one
	// key. Of them Reserve is refused.
	Share
)

// Defaults of a Config.
const (
	DefaultMaxKeys       = 1 << 20
	DefaultSnapshotEvery = time.Minute
)

const (
	mostKeys = 1 << 30

	// keysPerShard is how many keys a shard is meant for: moving so many into a
	// new table takes well below a millisecond.
	keysPerShard = 4096
	// fewKeys is up to how many one shard is enough.
	fewKeys    = 64
	shardBits  = 6 // at least, above fewKeys
	mostShards = 1 << 14
)

// withDefaults is c with its defaults filled in, or what is wrong with it.
func (c Config) withDefaults() (Config, error) {
	if c.MaxKeys == 0 {
		c.MaxKeys = DefaultMaxKeys
	}
	if c.SnapshotEvery == 0 {
		c.SnapshotEvery = DefaultSnapshotEvery
	}
	switch {
	case c.MaxKeys < 1 || c.MaxKeys > mostKeys:
		return c, fmt.Errorf("memstore: MaxKeys: %w: want 1 to %d, got %d", weir.ErrInvalid, mostKeys, c.MaxKeys)
	case c.Full > Share:
		return c, fmt.Errorf("memstore: Full: %w: want Refuse or Share, got %d", weir.ErrInvalid, c.Full)
	case c.SnapshotEvery < 0:
		return c, fmt.Errorf("memstore: SnapshotEvery: %w: want a positive duration, got %v", weir.ErrInvalid, c.SnapshotEvery)
	}
	return c, nil
}

// bitsOf is how many bits of a hash choose a shard of a store for so many keys.
func bitsOf(keys int) int {
	if keys <= fewKeys {
		return 0
	}
	return min(max(shardBits, bits.Len(uint(keys-1)/keysPerShard)), bits.Len(mostShards)-1)
}

// New makes a store. With a snapshot file that exists, it knows what the file
// says; a file that is damaged, or of another version, is an error, as is one
// with more keys than MaxKeys. Otherwise it writes the first one. Errors of c, and
// of what is in the file, wrap weir.ErrInvalid.
func New(c Config) (*Store, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{config: c, hash: newHasher(), bits: bitsOf(c.MaxKeys)}
	s.clock.begin(c.Clock)
	s.full = fmt.Errorf("memstore: %w: MaxKeys is %d, and no key was found that owes nothing", weir.ErrFull, c.MaxKeys)
	s.shards = make([]shard, 1<<s.bits)
	s.txns.New = func() any { return new(txn) }
	for i := range s.shards {
		sh := &s.shards[i]
		sh.narrow.Store(table.New(s.bits))
		sh.wide.Table = table.New(s.bits)
	}
	if c.Snapshot != "" {
		if err := s.resume(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Close ends the store: it writes the snapshot, if there is one to write, and
// every later request gets an error that wraps weir.ErrClosed. Closing again does
// nothing.
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
