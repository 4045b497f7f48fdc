// Package revision follows a hash in Redis whose content has a number and an ID.
//
// Every change of the content writes the next number into the field "version" and a random
// text into the field "id". The ID distinguishes contents with the same number, before and
// after a Redis lost its data. A [Follower] reads both often, and the content only when
// they change.
package revision

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir/redisstore"
)

// DefaultEvery is the default Every of a Follower.
const DefaultEvery = 400 * time.Millisecond

// A Position identifies the content of a hash. The zero Position is that of a missing hash.
type Position struct {
	Number int64
	ID     string // unknown if empty
}

// read returns the field ARGV[1] of the hash KEYS[1], followed by a space and each
// further field that exists. It returns "" if the first field does not exist, because
// clients differ in how they report a nil reply.
const read = `
local text = redis.call('HGET', KEYS[1], ARGV[1])
for i = 2, text and #ARGV or 0 do
  text = text .. ' ' .. (redis.call('HGET', KEYS[1], ARGV[i]) or '')
end
return text or ''
`

// Get returns the text of a field of the hash, or "" if it does not exist. Further fields follow
// the first, each after a space.
func Get(ctx context.Context, conn redisstore.Conn, key string, fields ...string) (string, error) {
	items, err := Do(ctx, conn, redisstore.Command{Head: []string{"EVAL", read, "1"}, Keys: []string{key}, Args: fields})
	if err != nil || len(items) == 0 {
		return "", err
	}
	return items[0], nil
}

// At returns the position of the hash.
func At(ctx context.Context, conn redisstore.Conn, key string) (p Position, err error) {
	reply, err := Get(ctx, conn, key, "version", "id")
	if err != nil || reply == "" {
		return p, err
	}
	number, id, _ := strings.Cut(reply, " ")
	p.ID = id
	p.Number, err = strconv.ParseInt(number, 10, 64)
	if err != nil || p.Number < 1 {
		return Position{}, fmt.Errorf("field version of %s: want a number, got %.40q", key, number)
	}
	return p, nil
}

// Do sends one command and returns its reply.
func Do(ctx context.Context, conn redisstore.Conn, c redisstore.Command) ([]string, error) {
	var replies [1]redisstore.Reply
	conn.Do(ctx, []redisstore.Command{c}, replies[:])
	r := replies[0]
	if r.Err != nil && strings.HasPrefix(r.Err.Error(), "NOPERM") {
		return nil, fmt.Errorf("the Redis user has no permission for %s: %w", strings.Join(c.Keys, " and "), r.Err)
	}
	return r.Items, r.Err
}

// A Follower reports every change of a hash.
type Follower struct {
	// Conn returns the connection to Redis, or nil while there is none.
	Conn func() redisstore.Conn

	// Key is the key of the hash.
	Key string

	// Every is the interval between two reads of the position; DefaultEvery if zero. A changed
	// content is read within 10 s.
	Every time.Duration

	// Read reads the content after its position changed from known to current, which is zero
	// if the hash is missing. It returns a function that uses the content, which may be
	// nil. After an error, or ErrChanged, Read is called again at the next read.
	Read func(ctx context.Context, conn redisstore.Conn, known, current Position) (use func(), err error)

	// Observe receives the error while the store is unavailable, every 30 seconds, and
	// nil when it is available again.
	Observe func(error)
}

// ErrChanged reports that the content changed while it was read.
var ErrChanged = errors.New("changed while it was read")

var errNotConnected = errors.New("store unavailable")

// readTimeout bounds a read of the content, which may have megabytes.
const readTimeout = 10 * time.Second

// reportInterval is the interval of reports about a lasting error.
const reportInterval = 30 * time.Second

// Once reads the content, if there is one, within the time of Run, and uses it.
func (f *Follower) Once(ctx context.Context) error {
	use, _, err := f.poll(ctx, f.every(), Position{})
	if err == nil && use != nil {
		use()
	}
	return err
}

func (f *Follower) every() time.Duration {
	if f.Every <= 0 {
		return DefaultEvery
	}
	return f.Every
}

// Run reads until ctx ends. The content at the position known is in use already.
func (f *Follower) Run(ctx context.Context, known Position) {
	every := f.every()
	tick := time.NewTicker(every)
	defer tick.Stop()
	var reported time.Time // last error; zero: none
	for {
		use, current, err := f.poll(ctx, every, known)
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
			if use != nil {
				use()
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (f *Follower) poll(ctx context.Context, within time.Duration, known Position) (use func(), current Position, err error) {
	conn := f.Conn()
	if conn == nil {
		return nil, known, errNotConnected
	}
	short, cancel := context.WithTimeout(ctx, max(within, time.Second))
	defer cancel()
	if current, err = At(short, conn, f.Key); err != nil || current == known {
		return nil, current, err
	}
	ctx, cancel = context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if use, err = f.Read(ctx, conn, known, current); errors.Is(err, ErrChanged) {
		return nil, known, nil
	}
	return use, current, err
}
