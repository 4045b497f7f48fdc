// Package redisledger stores shares in Redis or Valkey.
//
//	ledger, err := redisledger.New(conn, "") // a redisstore.Conn
//	…
//	store, err := share.New(strict, ledger, share.Config{})
//
// A row is a string PREFIX:1:share:{NAME}, with the limit's key in NAME: 16 digits of its version, and
// the bytes of package share. It has a TTL. NAME is encoded as the keys of package redisstore. In a
// cluster, rows are in different slots. The earliest clock of the nodes of a call is the ledger's
// time: their clocks must be synchronized within 1 s.
//
// A Redis user needs the commands evalsha, eval, time, get and set for these keys. Redis
// replicates asynchronously: a failover may lose the last writes, and more than a limit may then
// be admitted until the leases of the lost shares end.
package redisledger

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/internal/missing"
	"github.com/floodweir/weir/internal/rediskey"
	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/share"
)

type ledger struct {
	conn   redisstore.Conn
	prefix string
}

// New returns a ledger. Ledgers with the same prefix on one Redis share their rows; an empty
// prefix is redisstore.DefaultPrefix. An error wraps weir.ErrInvalid.
func New(conn redisstore.Conn, prefix string) (share.Ledger, error) {
	if missing.Value(conn) {
		return nil, fmt.Errorf("redisledger: conn: %w: got nil, want a connection", weir.ErrInvalid)
	}
	s := bounds.Sharing{Prefix: prefix}
	if err := s.Or(bounds.Sharing{Prefix: redisstore.DefaultPrefix, Timeout: time.Second, InFlight: 1, MaxBatch: 1}, "redisledger", weir.ErrInvalid, ":"); err != nil {
		return nil, err
	}
	return &ledger{conn: conn, prefix: s.Prefix + ":1:share:{"}, nil
}

//go:embed ledger.lua
var script string

var sha = func() string {
	sum := sha1.Sum([]byte(script)) // Redis names scripts by it
	return hex.EncodeToString(sum[:])
}()

// Load implements [share.Ledger].
func (l *ledger) Load(ctx context.Context, names []string, rows []share.Stored) (now time.Time, err error) {
	calls := l.calls(len(names), func(c *redisstore.Command, i int) { c.Keys = append(c.Keys, l.key(names[i])) })
	items, err := l.do(ctx, "load", calls)
	if err != nil {
		return now, err
	}
	for i := range rows {
		row, t, err := decode(names[i], items[2*i:])
		if err != nil {
			return now, unavailable("load", err)
		}
		if rows[i] = row; i == 0 || t.Before(now) {
			now = t
		}
	}
	return now, nil
}

// decode decodes the items of a row: the ledger's time, and its content.
func decode(name string, items []string) (row share.Stored, now time.Time, err error) {
	us, err := strconv.ParseInt(items[0], 10, 64)
	if err != nil {
		return row, now, err
	}
	if text := items[1]; text != "" {
		if row.Version, err = strconv.ParseUint(text[:min(versionDigits, len(text))], 10, 64); err != nil {
			return row, now, fmt.Errorf("row of %.40q: %w", name, err)
		}
		row.Data = []byte(text[versionDigits:])
	}
	return row, time.UnixMicro(us), nil
}

const versionDigits = 16

// Swap implements [share.Ledger].
func (l *ledger) Swap(ctx context.Context, swaps []share.Swap) error {
	calls := l.calls(len(swaps), func(c *redisstore.Command, i int) {
		s := &swaps[i]
		s.Done = false
		keep := (s.Keep + time.Millisecond - 1) / time.Millisecond
		c.Keys = append(c.Keys, l.key(s.Name))
		c.Args = append(c.Args, strconv.FormatUint(s.Version, 10), strconv.FormatInt(max(1, int64(keep)), 10), string(s.Data))
	})
	items, err := l.do(ctx, "swap", calls)
	if err != nil {
		return err
	}
	for i := range swaps {
		s := &swaps[i]
		if s.Done = items[2*i] == ""; s.Done {
			continue
		}
		if s.Found, s.At, err = decode(s.Name, items[2*i:]); err != nil {
			return unavailable("swap", err)
		}
	}
	return nil
}

func (l *ledger) key(name string) string { return l.prefix + rediskey.EncodeKey(name) + "}" }

// calls returns the commands for n rows: one for all or, in a cluster, one for each.
func (l *ledger) calls(n int, add func(c *redisstore.Command, i int)) []redisstore.Command {
	calls := make([]redisstore.Command, 1)
	if l.conn.Cluster() {
		calls = make([]redisstore.Command, n)
	}
	for i := range n {
		add(&calls[min(i, len(calls)-1)], i)
	}
	return calls
}

// do runs the script, and returns its items, two for every row.
func (l *ledger) do(ctx context.Context, what string, calls []redisstore.Command) (items []string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, unavailable(what, err)
	}
	for i := range calls {
		calls[i].Head = []string{"EVALSHA", sha, strconv.Itoa(len(calls[i].Keys))}
	}
	replies := make([]redisstore.Reply, len(calls))
	l.conn.Do(ctx, calls, replies)
	for i := range replies {
		if e := redisstore.ServerError(""); errors.As(replies[i].Err, &e) && strings.HasPrefix(string(e), "NOSCRIPT") {
			calls[i].Head[0], calls[i].Head[1] = "EVAL", script
			l.conn.Do(ctx, calls[i:i+1], replies[i:i+1])
		}
		if err := replies[i].Err; err != nil {
			return nil, unavailable(what, err)
		}
		if got, want := len(replies[i].Items), 2*len(calls[i].Keys); got != want {
			return nil, unavailable(what, fmt.Errorf("got %d items, want %d", got, want))
		}
		items = append(items, replies[i].Items...)
	}
	return items, nil
}

func unavailable(what string, err error) error {
	return fmt.Errorf("redisledger: %s: %w: %w", what, weir.ErrUnavailable, err)
}
