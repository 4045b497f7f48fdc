package weirfile

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/redisstore"
)

// DefaultEvery is the default of Follower.Every for a file.
const DefaultEvery = time.Second

// A Follower adopts the policy file of a source whenever it changes. Adopt and one of Path, URL
// and Redis are required. Do not copy a Follower that is in use.
type Follower struct {
	// Path is a file.
	Path string

	// URL is an http or https URL of the text, such as that of GET /v1/published of weir serve.
	// A response has a status of 200, or 304 for the ETag of the last one, and no redirect. A
	// server may hold a request back as its field Prefer says, until the text changes.
	URL string

	// Redis has the published policies: see package published.
	Redis redisstore.Conn

	// Token is sent to URL in the field Authorization; none if empty.
	Token string

	// Client sends the requests to URL; http.DefaultClient if nil. Its redirects are not used.
	Client *http.Client

	// Copy is a file for the last text in force; none if empty. A program starts with it if
	// the source is unavailable, has no policies, or has none that the program can use. The
	// directory must exist. Only the user of the process may read the file.
	Copy string

	// Every is the polling interval. If zero, it is DefaultEvery for a file and
	// published.DefaultEvery otherwise.
	Every time.Duration

	// Adopt puts the values of a file into use, as guard.Registry.Configure and
	// httplimit.Middleware.SetPolicies do. It is called again when an operator adjusts a key of a
	// policy, by Policies of URL or Redis. If it returns an error, it is called again with the
	// file before, so a change of several values is not left half done.
	Adopt func(*File) error

	// Trouble, if not nil, is called with the reason when the last text is not in force or the
	// source is unavailable. It is called once for each reason, and with nil at its end.
	Trouble func(error)

	origin origin // made by open
	adjust adjustments
	saved  string // content of Copy

	reporting sync.Mutex // guards reported, and calls of Trouble
	reported  string     // the text of the last Trouble

	mu       sync.Mutex // guards the fields below
	version  int64      // of file
	problems [problems]error
}

// The reasons for Trouble, in the order of a report.
const (
	unavailable = iota
	refused
	unadjusted
	notSaved
	problems // their number
)

// An origin is where a Follower reads.
type origin interface {
	// load passes texts to adopt, the newest first, until adopt returns nil. Otherwise it
	// returns an error.
	load(ctx context.Context, adopt func(revision) error) error

	// follow passes each later text to adopt, until ctx ends. It passes the error of each
	// attempt to read to observe, after adopt; nil for a success.
	follow(ctx context.Context, adopt func(revision) error, observe func(error))

	// adjust passes the adjustments of single keys to use after each change, until ctx ends. It
	// passes errors to observe, and nil at their end.
	adjust(ctx context.Context, use func([]adjustment) error, observe func(error))
}

// A revision is one text of a source.
type revision struct {
	name      string // for errors
	number    int64  // of a published version; 0: none
	data      []byte
	readTable func(string) ([]byte, error) // nil: included files are not read
}

// loadTimeout bounds Load.
const loadTimeout = 5 * time.Second

// open makes the origin. An error wraps weir.ErrInvalid.
func (f *Follower) open() error {
	if f.origin != nil {
		return nil
	}
	f.adjust.wake = make(chan struct{}, 1)
	given := 0
	for _, is := range []bool{f.Path != "", f.URL != "", f.Redis != nil} {
		if is {
			given++
		}
	}
	if given != 1 || f.Adopt == nil {
		return fmt.Errorf("weirfile: follow: %w: want Adopt, and one of Path, URL and Redis", weir.ErrInvalid)
	}
	switch {
	case f.Path != "":
		f.origin = &fileSource{path: f.Path, every: f.Every}
	case f.Redis != nil:
		f.origin = &redisSource{conn: f.Redis, every: f.Every}
	default:
		s, err := newURLSource(f)
		if err != nil {
			return err
		}
		f.origin = s
	}
	return nil
}

// Load adopts the text of the source before it returns, or that of Copy if the source has none
// to adopt. It takes at most five seconds. After an error nothing is in force; Run tries again.
// Call it before Run, so that the program serves no request without its policies.
func (f *Follower) Load(ctx context.Context) error {
	if err := f.open(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	err := f.origin.load(ctx, f.adopt)
	if err == nil {
		f.report() // that the copy was not saved
		return nil
	}
	if f.problems[refused] == nil {
		f.set(unavailable, err)
	}
	f.report()
	if f.Copy == "" {
		return err
	}
	if failed := f.loadCopy(); failed != nil {
		return errors.Join(err, failed)
	}
	return nil
}

// Run calls Load if it was not called, and adopts every later text, until ctx is done. A text
// that is invalid or refused by Adopt changes nothing, nor does an unavailable source. The text
// of a file is read again if its content or an included file's size or time changes. Run returns
// the cause of ctx, or an error that wraps weir.ErrInvalid for an invalid field.
//
// A file that is written in place may be read while it is incomplete. Write another
// file and rename it to avoid this.
func (f *Follower) Run(ctx context.Context) error {
	if f.origin == nil {
		if err := f.open(); err != nil {
			return err
		}
		_ = f.Load(ctx) // reported
	}
	observe := func(kind int) func(error) {
		return func(err error) {
			f.set(kind, err)
			f.report()
		}
	}
	var running sync.WaitGroup
	running.Go(func() { f.endAdjustments(ctx) })
	running.Go(func() { f.origin.adjust(ctx, f.setAdjustments, observe(unadjusted)) })
	f.origin.follow(ctx, f.adopt, observe(unavailable))
	running.Wait()
	return context.Cause(ctx)
}

// Status returns the number of the version in force and what is wrong. The number is 0 if the
// source has no numbers, or if nothing is in force yet. The error is nil if the last text of the
// source is in force. Status may be called while Run runs.
func (f *Follower) Status() (version int64, problem error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.version, errors.Join(f.problems[:]...)
}

func (f *Follower) set(kind int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.problems[kind] = err
}

// report calls Trouble if the problems differ from the last ones.
func (f *Follower) report() {
	f.reporting.Lock()
	defer f.reporting.Unlock()
	_, err := f.Status()
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == f.reported {
		return
	}
	f.reported = text
	if f.Trouble != nil {
		f.Trouble(err)
	}
}

// adopt puts r into force and saves it in Copy.
func (f *Follower) adopt(r revision) error {
	err := f.use(r)
	f.set(refused, err)
	if err == nil {
		f.set(notSaved, f.save(r))
	}
	return err
}

// use puts r into force.
func (f *Follower) use(r revision) error {
	file, err := parse(r.name, r.data, r.readTable)
	if err != nil {
		return err
	}
	file.Version = r.number
	f.adjust.mu.Lock()
	defer f.adjust.mu.Unlock()
	if err := f.Adopt(f.adjusted(file)); err != nil {
		if old := f.adjust.file; old != nil {
			err = errors.Join(err, f.Adopt(f.adjusted(old))) // what Adopt changed before the error
		}
		return err
	}
	f.adjust.file = file
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version = r.number
	return nil
}
