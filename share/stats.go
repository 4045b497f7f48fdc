package share

import (
	"context"
	"time"

	"github.com/floodweir/weir"
)

// Stats are the counts of a Store.
type Stats struct {
	Shares    int   // that this process holds
	Keys      int   // whose demand is measured
	Local     int64 // requests for the keys in Keys that were decided without a call
	Ledger    int64 // requests that were decided by the ledger
	Strict    int64 // requests that were passed to the strict store
	Conflicts int64 // exchanges that were repeated, because another process wrote the row

	// Stranded is the sum over the shares of the part of the limit's rate, from 0 to 1, that is
	// above this process's demand.
	Stranded float64
}

// Stats returns the counts. It reads all keys.
func (s *Store) Stats() (st Stats) {
	for i := range s.table.slots {
		e := s.table.slots[i].Load()
		if e == nil {
			continue
		}
		e.mu.Lock()
		st.Keys++
		st.Local += e.local
		if e.own.Rule != nil {
			st.Shares++
			st.Stranded += max(0, float64(e.own.Rate)-e.demand) / float64(e.limit.Whole.Rate)
		}
		e.mu.Unlock()
	}
	st.Local += s.table.local.Load()
	st.Ledger, st.Strict, st.Conflicts = s.asked.Load(), s.strong.Load(), s.c.conflicts.Load()
	return st
}

// A Division describes how a limit of a key is divided.
type Division struct {
	Limit     weir.Limit // in force
	At        time.Time  // of the ledger
	Remainder float64    // the part of the limit's capacity that no process holds
	Level     int64      // tokens of the remainder
	Stranded  float64    // the part of the limit's rate that holders have above their demand
	Holders   []Holder
}

// A Holder is a process in a Division.
type Holder struct {
	ID     uint64        // random
	Self   bool          // it is this process
	Rate   float64       // its part of the rate, or of the count; 0 if it waits for a share
	Size   int64         // its part of the capacity, in tokens
	Demand float64       // tokens per second, as reported
	Lease  time.Duration // after a write
	Former bool          // its part is of a former limit, and ends with its lease
}

// Explain reads how the limit of a key is divided, for operators. An error wraps weir.ErrInvalid or
// weir.ErrUnavailable.
func (s *Store) Explain(ctx context.Context, key string, l weir.Limit) (Division, error) {
	return explain(ctx, s.ledger, &s.limits, s.table.holds, key, l)
}

// Explain reads how the limit of a key is divided, for operators. No Holder is Self. An error wraps
// weir.ErrInvalid or weir.ErrUnavailable.
func (g *Grants) Explain(ctx context.Context, key string, l weir.Limit) (Division, error) {
	return explain(ctx, g.ledger, &g.limits, func(uint64) bool { return false }, key, l)
}

func explain(ctx context.Context, ledger Ledger, all *limits, self func(holder uint64) bool, key string, l weir.Limit) (v Division, err error) {
	d, err := all.divide(l)
	if err != nil {
		return v, err
	}
	rows := make([]Stored, 1)
	at, err := ledger.Load(ctx, []string{rowName(key, l)}, rows)
	if err != nil {
		return v, err
	}
	var r row
	if rows[0].Version != 0 {
		if err := r.decode(rows[0].Data); err != nil {
			return v, err
		}
	}
	now, in, err := r.open(d, at.UnixMicro(), false)
	if err != nil {
		return v, err
	}
	v = Division{Limit: in.Limit, At: at, Remainder: max(0, float64(r.rest.Size)/float64(in.Whole.Size)), Level: r.rest.Level(now)}
	for i := range r.holders {
		h := &r.holders[i]
		demand := h.demand
		if h.old {
			demand = 0
		}
		v.Stranded += float64(max(0, h.part.Rate-demand)) / float64(in.Whole.Rate)
		v.Holders = append(v.Holders, Holder{
			ID: h.id, Self: self(h.id), Rate: float64(h.part.Rate) / float64(in.Whole.Rate), Size: h.part.Size,
			Demand: float64(h.demand) / float64(in.Span) * 1e6, Lease: time.Duration(h.lease) * time.Microsecond, Former: h.old,
		})
	}
	return v, nil
}
