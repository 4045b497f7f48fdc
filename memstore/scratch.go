package memstore

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/memstore/internal/reservation"
	"github.com/floodweir/weir/memstore/internal/siphash"
	"github.com/floodweir/weir/memstore/internal/slab"
	"github.com/floodweir/weir/memstore/internal/table"
)

// A Scratch decides requests on states that another store keeps, such as the rows of a
// database: Load, DoAll once or more, Save. NewScratch makes it. It is for one goroutine at a
// time.
type Scratch struct {
	s   *Store
	now int64
}

// A ScratchState is the state of a key under a limit, as a Scratch loads and saves it.
type ScratchState struct {
	Key          string
	Limit        weir.Limit // under which the state was written
	Words        []int64    // of the limit's rule; empty if the key is as if never used
	Reservations []ScratchReservation
}

// A ScratchReservation is a reservation of a ScratchState.
type ScratchReservation struct {
	ID       uint64     // a hash of the id and the scratch's seed
	Limit    weir.Limit // under which the tokens were charged
	Place    algo.Place // of the tokens
	Settled  bool
	N        int64 // tokens
	Actual   int64 // the tokens at which it was settled
	At       int64 // the instant of the charge, µs
	Deadline int64 // µs
}

// NewScratch returns a Scratch. The seed keeps clients from choosing ids with equal hashes.
// Processes that share states need the same seed.
func NewScratch(seed [16]byte) *Scratch {
	x := &Scratch{s: &Store{
		config: Config{MaxKeys: 1 << 40},
		hash: stableHasher(siphash.Key{
			K0: binary.LittleEndian.Uint64(seed[:8]), K1: binary.LittleEndian.Uint64(seed[8:]),
		}),
	}}
	x.s.full = fmt.Errorf("memstore: %w", weir.ErrFull)
	x.s.clock.begin(func() int64 { return x.now })
	x.s.txns.New = func() any { return new(txn) }
	makeShards(x.s)
	return x
}

// Load replaces the states of x, each of another key or weir.Limit.State, and sets the instant
// of each decision, in µs. It returns an error for words or a reservation that the
// limit of a state cannot have.
func (x *Scratch) Load(now int64, states []ScratchState) error {
	s := x.s
	x.now = now
	s.clock.high.Store(0)
	s.used.Store(0)
	sh := &s.shards[0]
	sh.narrow.Store(table.New(0))
	sh.wide, sh.latest, sh.reservations, sh.counts = wide{Table: table.New(0)}, 0, reservation.Queue{}, nil
	for i := range states {
		if err := x.load(sh, &states[i]); err != nil {
			return err
		}
	}
	return nil
}

func (x *Scratch) load(sh *shard, st *ScratchState) error {
	hash := x.hash(st)
	rule := st.Limit.Spec().Rule
	for i := range st.Reservations {
		h := &st.Reservations[i]
		record := reservation.Record{
			Name: reservation.Name{State: hash, ID: h.ID}, Limit: sh.wide.limits.retain(h.Limit), Place: uint8(h.Place),
			Settled: h.Settled, N: h.N, Actual: h.Actual, At: h.At, Deadline: h.Deadline,
		}
		if h.ID == 0 || sh.reservations.Find(record.Name) != nil {
			return fmt.Errorf("memstore: state of %.40q under %s: invalid reservation", st.Key, st.Limit.Brief())
		}
		sh.reservations.Add(record)
	}
	switch n, most := len(st.Words), rule.Words(); {
	case n == 0:
		return nil
	case n < most || rule.Variable() && n%most != 0:
		return fmt.Errorf("memstore: state of %.40q under %s: got %d words, want %d", st.Key, st.Limit.Brief(), n, most)
	}
	if b := narrow(st.Limit); b != nil {
		us, rem := b.Pair(st.Words)
		x.s.addNarrow(sh, hash, us, rem, x.now)
	} else {
		x.s.addWide(sh, hash, sh.wide.keep(st.Limit, st.Words))
	}
	return nil
}

func (x *Scratch) hash(st *ScratchState) uint64 { return stateHash(x.s.hash.sum(st.Key), st.Limit) }

// DoAll decides requests together, as [weir.Store] defines, at the instant of Load. Every state
// that they use must have been loaded.
func (x *Scratch) DoAll(rs []weir.Request, ds []weir.Decision) (bool, error) {
	if err := bounds.Check("memstore", weir.ErrInvalid, rs, len(ds)); err != nil {
		return false, err
	}
	t := x.s.txns.Get().(*txn)
	t.rs = rs
	ok, err := x.s.run(t, ds, x.now)
	release(t, &x.s.txns)
	return ok, err
}

// Save returns the given states as the decisions left them, with reservations in order of their
// deadlines. A state that is as if never used has no words.
func (x *Scratch) Save(states []ScratchState) []ScratchState {
	sh := &x.s.shards[0]
	after := make([]ScratchState, len(states))
	for i := range states {
		st := &after[i]
		st.Key, st.Limit = states[i].Key, states[i].Limit
		hash := x.hash(st)
		if e := sh.narrow.Load().Find(hash); e != nil && e.Word.Load() != dropped {
			state := narrow(st.Limit).State(sh.pair(hash, e.Word.Load()))
			st.Words = state[:]
		} else if e := sh.wide.Find(hash); e != nil && e.Word.Load() != dropped {
			words, limit := sh.wide.state(slab.Ref(e.Word.Load()))
			st.Words, st.Limit = slices.Clone(words), limit
		}
		if len(st.Words) > 0 && st.Limit.Spec().Rule.Until(st.Words) <= x.now {
			st.Words = nil
		}
		for h := range sh.reservations.State(hash) {
			st.Reservations = append(st.Reservations, ScratchReservation{
				ID: h.ID, Limit: sh.wide.limits.list[h.Limit].limit, Place: algo.Place(h.Place), Settled: h.Settled,
				N: h.N, Actual: h.Actual, At: h.At, Deadline: h.Deadline,
			})
		}
		slices.SortFunc(st.Reservations, func(a, b ScratchReservation) int {
			return cmp.Or(cmp.Compare(a.Deadline, b.Deadline), cmp.Compare(a.ID, b.ID))
		})
	}
	return after
}
