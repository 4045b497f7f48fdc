package published

import (
	"context"
	"errors"
	"time"

	"github.com/floodweir/weir/redisstore"
)

// DefaultEvery is the default Every of a Follower.
const DefaultEvery = 400 * time.Millisecond

// A Follower reports every new version.
type Follower struct {
	// Conn returns the connection to Redis, or nil while there is none.
	Conn func() redisstore.Conn

	// Every is the interval between two reads; DefaultEvery if zero. A read may take as
	// long again.
	Every time.Duration

	// Adopt receives each version that becomes current. If versions follow each other
	// faster than Every, only the last is reported.
	Adopt func(Version)

	// Observe receives the error while the store is unavailable, every 30 seconds, and
	// nil when it is available again.
	Observe func(error)
}

// Run reads until ctx ends. The version from is already known; 0: none.
func (f *Follower) Run(ctx context.Context, from int64) {
	every := f.Every
	if every <= 0 {
		every = DefaultEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	known := position{number: from}
	var reported time.Time // last error; zero: none
	for {
		v, current, err := f.poll(ctx, every, known)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if time.Since(reported) >= reportInterval {
				reported = time.Now()
				f.Observe(err)
			}
		default:
			if !reported.IsZero() {
				reported = time.Time{}
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

// reportInterval is the interval of reports about a lasting error.
const reportInterval = 30 * time.Second

var errNotConnected = errors.New("published: store unavailable")

// poll returns the current position and, if it differs from known, its Version. A lower
// number or another ID means another Redis, or one that lost its data. A Redis that lost
// everything reports no version.
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
		return v, current, nil // already read by number
	}
	v, err = Get(ctx, conn, current.number)
	if errors.Is(err, ErrNone) {
		return Version{}, known, nil // replaced by newer versions: read at the next poll
	}
	return v, current, err
}
