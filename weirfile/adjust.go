package weirfile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir/internal/adjusted"
	position "github.com/floodweir/weir/internal/revision"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/redisstore"
)

// AdjustmentsRel is the relation of the Link field of a text to the adjustments of single keys, for
// a Follower with a URL.
const AdjustmentsRel = "weir-adjustments"

// maxAdjustments bounds the JSON of adjustments over HTTP, in bytes.
const maxAdjustments = 16 << 20

// adjustments holds what operators set for single keys.
type adjustments struct {
	known atomic.Bool   // all was read
	wake  chan struct{} // the next end may be earlier; capacity 1

	mu   sync.Mutex // held while Adopt is called; guards the fields below
	file *File      // in force, without adjustments; nil: none
	all  []adjustment
}

// An adjustment ends by the monotonic clock of the process.
type adjustment struct {
	policy.Adjustment
	ends time.Time // zero: never
}

// Adjusts reports whether the adjustments of single keys are in force too: the limits that operators
// raise, and the keys that they freeze or block. A file has none. It may be called while Run runs.
func (f *Follower) Adjusts() bool { return f.adjust.known.Load() }

// adjusted returns file with the adjustments that have not ended. It requires adjust.mu.
func (f *Follower) adjusted(file *File) *File {
	now, all := time.Now(), []policy.Adjustment(nil)
	for _, a := range f.adjust.all {
		if a.ends.IsZero() || a.ends.After(now) {
			all = append(all, a.Adjustment)
		}
	}
	if len(all) == 0 || file.Policies == nil {
		return file
	}
	copied := *file
	copied.Policies, _ = file.Policies.WithAdjustments(all) // those that do not fit the policies are left out, as in weir serve
	return &copied
}

// setAdjustments puts adjustments into force.
func (f *Follower) setAdjustments(all []adjustment) error {
	f.adjust.mu.Lock()
	defer f.adjust.mu.Unlock()
	changed := len(f.adjust.all)+len(all) > 0
	f.adjust.all = all
	f.adjust.known.Store(true)
	select {
	case f.adjust.wake <- struct{}{}:
	default:
	}
	if !changed {
		return nil
	}
	return f.readopt()
}

// readopt calls Adopt with the file in force, after its adjustments changed. It requires
// adjust.mu.
func (f *Follower) readopt() error {
	if f.adjust.file == nil {
		return nil
	}
	return f.Adopt(f.adjusted(f.adjust.file))
}

// endAdjustments puts the limits of the policies into force again at the end of each adjustment,
// until ctx ends.
func (f *Follower) endAdjustments(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		now, next := time.Now(), time.Hour
		f.adjust.mu.Lock()
		before := len(f.adjust.all)
		var left []adjustment
		for _, a := range f.adjust.all {
			if !a.ends.IsZero() {
				if !a.ends.After(now) {
					continue
				}
				next = min(next, a.ends.Sub(now))
			}
			left = append(left, a)
		}
		var err error
		if f.adjust.all = left; len(left) < before {
			err = f.readopt()
		}
		f.adjust.mu.Unlock()
		if err != nil {
			f.set(unadjusted, err)
			f.report()
		}
		timer.Reset(next)
		select {
		case <-ctx.Done():
			return
		case <-f.adjust.wake:
		case <-timer.C:
		}
	}
}

// adjustmentsOf returns records of which a source said at that its time was now.
func adjustmentsOf(records []adjusted.Record, at, now time.Time) (all []adjustment) {
	for _, r := range records {
		one, err := r.Adjustment()
		if err != nil {
			continue // of a later version of weir serve
		}
		a := adjustment{Adjustment: one}
		if r.Until > 0 {
			a.ends = at.Add(time.UnixMilli(r.Until).Sub(now))
		}
		all = append(all, a)
	}
	return all
}

func (*fileSource) adjust(context.Context, func([]adjustment) error, func(error)) {}

// adjust reads the adjustments in Redis after each change. If Redis has lost them, those of before
// stay in force: a node of weir serve writes them again.
func (s *redisSource) adjust(ctx context.Context, use func([]adjustment) error, observe func(error)) {
	began := false
	r := position.Follower{
		Conn: func() redisstore.Conn { return s.conn }, Key: adjusted.Key, Every: s.every,
		Read: func(ctx context.Context, conn redisstore.Conn, _, current position.Position) (func(), error) {
			if current.Number == 0 && began {
				return nil, nil
			}
			began = true
			var records []adjusted.Record
			var now time.Time
			at := time.Now()
			if current.Number == 0 {
				return func() { observe(use(nil)) }, nil
			}
			err := adjusted.Read(ctx, conn, current, func(r adjusted.Record, ms int64) {
				records, now = append(records, r), time.UnixMilli(ms)
			})
			return func() { observe(use(adjustmentsOf(records, at, now))) }, err
		},
		Observe: func(err error) {
			var answer redisstore.ServerError
			if err == nil || errors.As(err, &answer) { // others are reported for the policies
				observe(err)
			}
		},
	}
	r.Run(ctx, position.Position{Number: -1}) // none is read, too
}

// adjust reads the adjustments over HTTP, if the response with the text has a Link to them on the
// same server.
func (s *urlSource) adjust(ctx context.Context, use func([]adjustment) error, observe func(error)) {
	var to string
	select {
	case <-ctx.Done():
		return
	case to = <-s.link:
	}
	etag, pause := "", s.every
	for ctx.Err() == nil {
		begin := time.Now()
		tag, records, now, err := s.getAdjustments(ctx, to, etag)
		var unexpected *statusError
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && tag != etag || err == nil && etag == "":
			observe(use(adjustmentsOf(records, time.Now(), now)))
			etag, pause = tag, s.every
		case err == nil:
			pause = s.every
		case errors.As(err, &unexpected): // others are reported for the policies
			observe(err)
			fallthrough
		default:
			pause = min(2*pause, max(maxBackoff, s.every))
		}
		wait := time.NewTimer(max(0, pause-time.Since(begin))) // none after a request that was held back
		select {
		case <-ctx.Done():
		case <-wait.C:
		}
		wait.Stop()
	}
}

// A statusError is the error of a response that has nothing to use.
type statusError struct{ error }

// getAdjustments returns the adjustments, their tag and the time of the server; of a response 304 the
// tag alone.
func (s *urlSource) getAdjustments(ctx context.Context, to, etag string) (tag string, records []adjusted.Record, now time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, holdTime+requestTimeout)
	defer cancel()
	res, err := s.get(ctx, to, "application/json", etag)
	if err != nil {
		return "", nil, now, err
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusNotModified && etag != "":
		return etag, nil, now, nil
	case res.StatusCode != http.StatusOK:
		return "", nil, now, &statusError{unexpected(res)}
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAdjustments+1))
	if err == nil && len(data) > maxAdjustments {
		err = &statusError{fmt.Errorf("weirfile: GET %s: got more than %d bytes", shown(to), maxAdjustments)}
	}
	if err == nil {
		if err = json.Unmarshal(data, &records); err != nil {
			err = &statusError{fmt.Errorf("weirfile: GET %s: adjustments: %w", shown(to), err)}
		}
	}
	now, failed := http.ParseTime(res.Header.Get("Date"))
	if failed != nil {
		now = time.Now()
	}
	return res.Header.Get("ETag"), records, now, err
}

// announce passes the address of the adjustments on, once.
func (s *urlSource) announce(res *http.Response) {
	if to := adjustmentsLink(res); to != "" && s.link != nil {
		select {
		case s.link <- to:
		default: // already
		}
	}
}

// adjustmentsLink returns the address of the adjustments on the server of a response, or "".
func adjustmentsLink(res *http.Response) string {
	for _, field := range res.Header.Values("Link") {
		target, params, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(field), "<"), ">")
		if !ok || !strings.Contains(params, `rel="`+AdjustmentsRel+`"`) {
			continue
		}
		base := res.Request.URL
		to, err := base.Parse(target)
		if err == nil && to.Scheme == base.Scheme && to.Host == base.Host {
			return to.String()
		}
	}
	return ""
}

// shown returns a URL without its password.
func shown(text string) string {
	if u, err := url.Parse(text); err == nil {
		return u.Redacted()
	}
	return "the adjustments"
}
