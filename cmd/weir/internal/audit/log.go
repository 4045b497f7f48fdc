package audit

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/keyid"
	"github.com/floodweir/weir/internal/revision"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/redisstore"
)

const (
	// Keep is the number of entries that are kept.
	Keep = 10_000

	// MaxLimit is the largest Limit of a Filter, DefaultLimit the one of the zero Filter.
	MaxLimit, DefaultLimit = 1000, 100

	// signIns bounds the entries of failed sign-ins of this process, and those of each user that
	// signs in and out, so that they do not displace all others.
	signIns = "1/m burst 10"

	// maxUsers bounds the users with a bound of their own; the others share one.
	maxUsers = 1000

	// timeout bounds one call of Redis.
	timeout = time.Second
)

// Config is the configuration of a Log.
type Config struct {
	// Conn returns the connection to Redis, or nil while there is none. If Conn is nil, the
	// entries are in the process.
	Conn func() redisstore.Conn

	// Log receives every entry.
	Log *slog.Logger

	// Names are the IDs of keys in Shown, in the process log and in a Filter. If nil, they are
	// of policy.KeyID.
	Names *keyid.Names
}

// A Log is an audit log. It is safe for concurrent use.
type Log struct {
	conn    func() redisstore.Conn
	log     *slog.Logger
	names   *keyid.Names
	signIns *weir.Limiter

	mu      sync.Mutex
	entries []Entry // without Conn: at most 2*Keep, oldest first
}

// New returns a Log.
func New(c Config) (*Log, error) {
	store, err := memstore.New(memstore.Config{MaxKeys: 1 + maxUsers, Full: memstore.Share})
	if err != nil {
		return nil, err
	}
	l := &Log{conn: c.Conn, log: c.Log, names: c.Names}
	l.signIns, err = weir.New(store, weir.MustLimit(signIns), weir.Config{})
	return l, err
}

// Append adds an entry and returns it with ID and At. Too long texts are shortened. After an error
// the entry is only in the log of the process.
func (l *Log) Append(ctx context.Context, e Entry) (Entry, error) {
	e.ID, e.At = 0, time.Time{}
	e, err := l.append(ctx, e.shortened())
	l.Print(ctx, e, err)
	return e, err
}

func (l *Log) append(ctx context.Context, e Entry) (Entry, error) {
	if l.conn == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.add(e), nil
	}
	items, err := l.do(ctx, redisstore.Command{Head: []string{"EVAL", Script + "return append(KEYS[1], ARGV[1])", "1"}, Keys: []string{Key}, Args: []string{e.Encode()}})
	if err != nil {
		return e, err
	}
	return e.Stored(items)
}

// Finish sets the OK and the Error of an entry that Append returned. It does nothing if the entry is
// no longer kept.
func (l *Log) Finish(ctx context.Context, e Entry) error {
	e = e.shortened()
	err := l.finish(ctx, e)
	l.Print(ctx, e, err)
	return err
}

func (l *Log) finish(ctx context.Context, e Entry) error {
	if l.conn == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if i, ok := slices.BinarySearchFunc(l.entries, e.ID, byID); ok {
			l.entries[i] = e
		}
		return nil
	}
	_, err := l.do(ctx, redisstore.Command{Head: []string{"EVAL", replace, "1"}, Keys: []string{Key}, Args: []string{field(e.ID), e.Encode()}})
	return err
}

// SignInFailed adds an entry of a failed sign-in from an address, in the background. Beyond ten, it
// adds one in a minute.
func (l *Log) SignInFailed(ctx context.Context, address, via string) {
	l.appendSession(ctx, "failed", Entry{Actor: address, Via: via, Action: "sign_in", OK: No(), Error: "wrong token"})
}

// Signed adds an entry of a sign-in or a sign-out, in the background. Beyond ten of a user, it adds
// one in a minute.
func (l *Log) Signed(ctx context.Context, name, via, action string) {
	l.appendSession(ctx, "user "+name, Entry{Actor: name, Via: via, Action: action, OK: Yes()})
}

// appendSession adds an entry, unless there were too many with the same key.
func (l *Log) appendSession(ctx context.Context, key string, e Entry) {
	ctx = context.WithoutCancel(ctx)
	if d, err := l.signIns.Take(ctx, key, 1); err != nil || !d.OK {
		return
	}
	go func() { // at most ten of a key at a time, each for at most timeout
		_, _ = l.Append(ctx, e)
	}()
}

// Print writes an entry to the log of the process. err is the reason why it is not in the audit log, or
// nil.
func (l *Log) Print(ctx context.Context, e Entry, err error) {
	attrs := []slog.Attr{slog.Int64("id", e.ID), slog.String("action", e.Action), slog.String("actor", e.Actor), slog.String("via", e.Via)}
	for _, a := range [][2]string{{"policy", e.Policy}, {"key", l.id(e.KeyID)}, {"reason", e.Reason}, {"from", e.From}, {"to", e.To}, {"error", e.Error}} {
		if a[1] != "" {
			attrs = append(attrs, slog.String(a[0], a[1]))
		}
	}
	level, result := slog.LevelInfo, "pending"
	switch {
	case e.OK != nil && *e.OK:
		result = "ok"
	case e.OK != nil:
		level, result = slog.LevelWarn, "failed"
	}
	attrs = append(attrs, slog.String("result", result))
	if err != nil {
		level = slog.LevelError
		attrs = append(attrs, slog.String("not_stored", err.Error()))
	}
	l.log.LogAttrs(ctx, level, "audit", attrs...)
}

// add adds an entry to the entries of the process. It requires mu.
func (l *Log) add(e Entry) Entry {
	e.ID, e.At = 1, time.Now().UTC().Truncate(time.Millisecond)
	if n := len(l.entries); n > 0 {
		e.ID = l.entries[n-1].ID + 1
	}
	if len(l.entries) == 2*Keep {
		l.entries = l.entries[:copy(l.entries, l.entries[Keep:])]
	}
	l.entries = append(l.entries, e)
	return e
}

func byID(e Entry, id int64) int { return int(e.ID - id) }

// A Filter selects entries. Empty fields select all.
type Filter struct {
	Policy, Actor, Action string
	KeyID                 string // as in Shown

	Before int64 // only entries with a smaller ID; all if zero
	Limit  int   // the most entries; DefaultLimit if zero, at most MaxLimit
}

func (l *Log) matches(f *Filter, e *Entry) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	return is(f.Policy, e.Policy) && is(f.Actor, e.Actor) && is(f.Action, e.Action) && (f.KeyID == "" || f.KeyID == l.id(e.KeyID))
}

// Shown returns e for output: with the ID of its key, and without the key if plain is not set.
func (l *Log) Shown(e Entry, plain bool) Entry {
	if e.KeyID = l.id(e.KeyID); !plain {
		e = e.withoutKey()
	}
	return e
}

// id returns the ID of the key with a policy.KeyID.
func (l *Log) id(hash string) string {
	if l.names == nil {
		return hash
	}
	return l.names.FromHash(hash)
}

// Read returns the selected entries, newest first.
func (l *Log) Read(ctx context.Context, f Filter) ([]Entry, error) {
	if f.Limit == 0 {
		f.Limit = DefaultLimit
	}
	f.Limit = min(f.Limit, MaxLimit)
	found := []Entry{}
	before := f.Before
	for {
		page, next, err := l.page(ctx, before)
		if err != nil {
			return nil, err
		}
		for i := range page {
			if l.matches(&f, &page[i]) {
				if found = append(found, page[i]); len(found) == f.Limit {
					return found, nil
				}
			}
		}
		if next <= 1 {
			return found, nil
		}
		before = next
	}
}

// page returns entries before a number, newest first, and the number before which the next page is; 0
// if there is none.
func (l *Log) page(ctx context.Context, before int64) (page []Entry, next int64, err error) {
	if l.conn == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		all := l.entries[max(0, len(l.entries)-Keep):]
		if before > 0 {
			i, _ := slices.BinarySearchFunc(all, before, byID)
			all = all[:i]
		}
		page = slices.Clone(all)
		slices.Reverse(page)
		return page, 0, nil
	}
	items, err := l.do(ctx, redisstore.Command{Head: []string{"EVAL", readPage, "1"}, Keys: []string{Key},
		Args: []string{strconv.FormatInt(before, 10), strconv.Itoa(Keep), "200"}})
	if err != nil || len(items) == 0 {
		return nil, 0, err
	}
	if next, err = strconv.ParseInt(items[0], 10, 64); err != nil {
		return nil, 0, fmt.Errorf("audit: unexpected reply %.40q", items[0])
	}
	for _, text := range items[1:] {
		e, err := decode(text)
		if err != nil {
			return nil, 0, err
		}
		page = append(page, e)
	}
	return page, next, nil
}

// do sends one command.
func (l *Log) do(ctx context.Context, c redisstore.Command) ([]string, error) {
	conn := l.conn()
	if conn == nil {
		return nil, fmt.Errorf("audit: %w", weir.ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	items, err := revision.Do(ctx, conn, c)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	return items, nil
}
