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

	// Trouble is told when the store cannot say, every half a minute as long as it
	// cannot, and with nil when it can again.
	Observe func(error)
}

// Run asks until ctx is done. The version from is known already; 0 for none.
func (f *Follower) Run(ctx context.Context, from int64) {
	every := f.Every
	if every <= 0 {
		every = DefaultEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	known := position{number: from}
	var told time.Time // when trouble was; zero without any
	for {
		v, current, err := f.poll(ctx, every, known)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if time.Since(told) >= reportInterval {
				told = time.Now()
				f.Observe(err)
			}
		default:
			if !told.IsZero() {
				told = time.Time{}
				f.Observe(nil)
			}
			known = current
			if v.Number != 0 {
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

// remind is how often trouble that goes on is told.
const reportInterval = 30 * time.Second

var errNotConnected = errors.New("published: the store does not answer yet")

// next is what is current and, if it is not what is known, that Version. A number that
// went back, or an id that changed, is that of another Redis, or of one that lost what
// it knew; one that was lost altogether is no news.
func (f *Follower) poll(ctx context.Context, within time.Duration, known position) (v Version, current position, err error) {
	conn := f.Conn()
	if conn == nil {
		return v, known, errNotConnected
	}
	ctx, cancel := context.WithTimeout(ctx, max(within, time.Second))
	defer cancel()
	switch current, err = readPosition(ctx, conn); {
	case err != nil || current == known || current.number == 0:
		return v, current, err
	case current.number == known.number && known.id == "":
		return v, current, nil // it was read by its number before
	}
	v, err = Get(ctx, conn, current.number)
	if errors.Is(err, ErrNone) {
		return Version{}, known, nil // many followed since: the next time
	}
	return v, current, err
}
