package published

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/floodweir/weir/internal/revision"
	"github.com/floodweir/weir/redisstore"
)

// DefaultEvery is the default Every of a Poller.
const DefaultEvery = revision.DefaultEvery

// A Poller reports every new version.
type Poller struct {
	// Conn returns the connection to Redis, or nil while there is none.
	Conn func() redisstore.Conn

	// Every is the interval between two reads of the position; DefaultEvery if zero. A changed
	// content is read within 10 s.
	Every time.Duration

	// Adopt receives each version that becomes current. If versions follow each other
	// faster than Every, only the last is reported.
	Adopt func(Version)

	// Observe receives the error while the store is unavailable, every 30 seconds, and
	// nil when it is available again.
	Observe func(error)
}

// Run reads until ctx ends. The version from is already known; 0: none.
func (f *Poller) Run(ctx context.Context, from int64) {
	observe := func(err error) {
		if err != nil {
			err = fmt.Errorf("published: %w", err)
		}
		f.Observe(err)
	}
	r := revision.Follower{Conn: f.Conn, Key: key, Every: f.Every, Read: f.read, Observe: observe}
	r.Run(ctx, revision.Position{Number: from})
}

// read reads the current version. A lower number or another ID means another Redis, or one
// that lost its data. A Redis that lost everything reports no version.
func (f *Poller) read(ctx context.Context, conn redisstore.Conn, known, current revision.Position) (use func(), err error) {
	if current.Number == 0 || current.Number == known.Number && known.ID == "" {
		return nil, nil // none, or already read by number
	}
	v, err := load(ctx, conn, current.Number)
	if errors.Is(err, ErrNone) {
		return nil, revision.ErrChanged // replaced by newer versions
	}
	return func() { f.Adopt(v) }, err
}
