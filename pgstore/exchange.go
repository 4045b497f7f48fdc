package pgstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
)

// Requests that weir_decide does not decide are decided here, by package memstore on copies of
// the rows: weir_read reads them with the instant of the server, and weir_swap writes those that
// have changed if no other call has written one since. Otherwise all is repeated.

// maxSwaps bounds the repetitions. Each means that another process has written in between.
const maxSwaps = 100

var errContended = errors.New("other processes wrote the same keys too often; nothing was charged")

// exchangeStates decides ops, each all or nothing.
func (s *Store) exchangeStates(ops []*op) {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.Timeout)
	defer cancel()
	for _, o := range ops {
		o.Progress.Sent()
	}
	err := s.tryExchange(ctx, ops)
	for _, o := range ops {
		switch {
		case err != nil:
			o.Err = unavailable(err)
		case o.Err != nil && !errors.Is(o.Err, weir.ErrInvalid):
			o.Err = fmt.Errorf("pgstore: %w", o.Err)
		}
		if err == nil {
			o.Progress.Replied()
		}
	}
}

func (s *Store) tryExchange(ctx context.Context, ops []*op) error {
	scratch, err := s.opened(ctx)
	if err != nil {
		return err
	}
	names := s.rowsOf(ops)
	for range maxSwaps {
		clock, err := s.config.now()
		if err != nil {
			return err
		}
		rows, at, err := s.read(ctx, names)
		if err != nil {
			return err
		}
		if clock == 0 {
			clock = at
		}
		now := clock
		states := make([]memstore.ScratchState, len(rows))
		for i := range rows {
			now = max(now, rows[i].guard(clock))
			states[i] = rows[i].ScratchState
		}
		if now > lastInstant {
			return fmt.Errorf("the clock of the server shows %d µs, want at most %d", now, int64(lastInstant))
		}
		if err := scratch.Load(now, states); err != nil {
			return err
		}
		for _, o := range ops {
			o.ok, o.Err = scratch.DoAll(o.rs, o.ds)
		}
		if done, err := s.swap(ctx, clock, now, rows, scratch.Save(states)); done || err != nil {
			return err
		}
	}
	return errContended
}

// opened returns the scratch, with the seed in the database.
func (s *Store) opened(ctx context.Context) (*memstore.Scratch, error) {
	if x := s.scratch.Load(); x != nil {
		return x, nil
	}
	var seed []byte
	if err := s.db.QueryRowContext(ctx, "SELECT seed FROM weir_seed").Scan(&seed); err != nil {
		return nil, err
	}
	x := memstore.NewScratch([16]byte(seed))
	s.scratch.Store(x)
	return x, nil
}

// rowsOf returns the rows that ops may use, in the order of their names.
func (s *Store) rowsOf(ops []*op) (rows []row) {
	add := func(key string, l weir.Limit) {
		rows = append(rows, row{name: s.stateName(key, l), ScratchState: memstore.ScratchState{Key: key, Limit: l}})
	}
	for _, o := range ops {
		for i := range o.rs {
			r := &o.rs[i]
			add(r.Key, r.Limit)
			for _, f := range r.From {
				if !f.IsZero() {
					add(r.Key, f)
				}
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.name, b.name) })
	return slices.CompactFunc(rows, func(a, b row) bool { return a.name == b.name })
}

// read returns the rows of names, and the instant of the server.
func (s *Store) read(ctx context.Context, names []row) (rows []row, now int64, err error) {
	var list array
	for i := range names {
		list.text(names[i].name)
	}
	err = call(ctx, func() error {
		rows = slices.Clone(names)
		found, err := s.db.QueryContext(ctx, "SELECT * FROM weir_read($1)", list.String())
		if err != nil {
			return err
		}
		defer found.Close()
		i := 0
		for ; found.Next() && i < len(rows); i++ {
			r := &rows[i]
			var words, rule, reservations sql.NullString
			var last, ahead, version sql.NullInt64
			if err := found.Scan(&now, &words, &last, &ahead, &rule, &reservations, &version); err != nil {
				return err
			}
			r.last, r.ahead, r.version = last.Int64, ahead.Int64, version.Int64
			if err := r.decode(&s.limits, words.String, rule.String, reservations.String); err != nil {
				return err
			}
		}
		if err := found.Err(); err != nil {
			return err
		}
		if i != len(rows) {
			return fmt.Errorf("weir_read: got %d rows, want %d", i, len(rows))
		}
		return nil
	})
	return rows, now, err
}

// swap writes the rows whose states have changed. It reports false if another call has written
// one of the rows that were read, and nothing was written.
func (s *Store) swap(ctx context.Context, clock, now int64, rows []row, after []memstore.ScratchState) (done bool, err error) {
	var names, versions, words, lasts, aheads, rules, held, expire array
	changes := false
	for i := range rows {
		changes = changes || rows[i].changed(&after[i])
	}
	if !changes {
		return true, nil
	}
	for i := range rows {
		r, st := &rows[i], &after[i]
		until, changed := expires(st, r.ahead), r.changed(st)
		if !changed && r.version == 0 {
			continue
		}
		names.text(r.name)
		versions.number(r.version)
		lasts.number(max(r.last, now))
		aheads.number(r.ahead)
		expire.number(until)
		optional(&rules, ruleText(st.Limit))
		optional(&held, encodeReservations(st.Reservations))
		switch {
		case !changed:
			words.text("")
		case until <= now && r.ahead == 0:
			words.null()
		default:
			words.text(numbers(st.Words))
		}
	}
	err = call(ctx, func() error {
		return s.db.QueryRowContext(ctx, "SELECT weir_swap($1, $2, $3, $4, $5, $6, $7, $8, $9)", clock, names.String(), versions.String(),
			words.String(), lasts.String(), aheads.String(), rules.String(), held.String(), expire.String()).Scan(&done)
	})
	return done, err
}

// optional adds a text to a, or NULL for an empty one.
func optional(a *array, text string) {
	if text == "" {
		a.null()
		return
	}
	a.text(text)
}
