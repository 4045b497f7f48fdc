package published

import (
	"context"
	"errors"
	"time"

	"github.com/floodweir/weir/redisstore"
)

// DefaultEvery is the Every of a Follower.
const DefaultEvery = 400 * time.Millisecond

// A Follower tells of every new version.
type Follower struct {
	// Conn is the connection to ask over, or nil while there is none.
	Conn func() redisstore.Conn

	// Every is how often to ask; DefaultEvery if zero. An answer may take as long
	// again.
	Every time.Duration

	// Adopt is told of a version that was not the current one before. Versions that
	// followed each other faster than Every are skipped but for the last.
	Adopt func(Version)

	// Trouble is told when the store cannot say, and with nil when it can again.
	Trouble func(error)
}

// Run asks until ctx is done. The version from is known already; 0 for none.
func (f *Follower) Run(ctx context.Context, from int64) {
	every := f.Every
	if every <= 0 {
		every = DefaultEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	troubled := false
	for {
		v, err := f.next(ctx, every, from)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			troubled = true
			f.Trouble(err)
		default:
			if troubled {
				troubled = false
				f.Trouble(nil)
			}
			if v.Number != 0 {
				from = v.Number
				f.Adopt(v)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

var errNotConnected = errors.New("published: the store does not answer yet")

// next is the current version if it is not from, or the zero Version. A number that
// went back is that of another Redis, or of one that lost what it knew.
func (f *Follower) next(ctx context.Context, within time.Duration, from int64) (Version, error) {
	conn := f.Conn()
	if conn == nil {
		return Version{}, errNotConnected
	}
	ctx, cancel := context.WithTimeout(ctx, max(within, time.Second))
	defer cancel()
	n, err := Current(ctx, conn)
	if err != nil || n == from || n == 0 {
		return Version{}, err
	}
	v, err := Get(ctx, conn, n)
	if errors.Is(err, ErrNone) {
		return Version{}, nil // many followed since: the next time
	}
	return v, err
}
