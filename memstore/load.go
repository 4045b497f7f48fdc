package memstore

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/memstore/internal/reservation"
	"github.com/floodweir/weir/memstore/internal/siphash"
	"github.com/floodweir/weir/memstore/internal/slab"
	"github.com/floodweir/weir/memstore/internal/snapfile"
)

// load reads a snapshot into s, which is new. After an error s must not be used.
func load(s *Store, file []byte) error {
	r, err := snapfile.NewReader(file)
	if err != nil {
		return err
	}
	s.hash = stableHasher(siphash.Key{K0: r.Word(), K1: r.Word()})
	l := &loader{Reader: r, store: s, now: s.clock.now()}
	l.ahead = max(0, r.Int()-l.now)
	return l.sections()
}

// A loader puts the records of a snapshot into a store.
type loader struct {
	*snapfile.Reader
	store  *Store
	limits []weir.Limit
	now    int64
	ahead  int64 // by how much the clock of the snapshot was ahead of this one
}

func (l *loader) sections() error {
	for l.Err == nil {
		section := l.Bytes(1)
		if len(section) == 0 {
			break
		}
		if section[0] == sectionEnd {
			if l.Len() > 0 {
				return fmt.Errorf("%w: %d bytes after the end", snapfile.ErrDamaged, l.Len())
			}
			return nil
		}
		if err := l.section(section[0]); err != nil {
			return err
		}
	}
	return l.Err
}

func (l *loader) section(kind byte) error {
	n := l.Int()
	if kind == sectionLimit {
		text := string(l.Bytes(n))
		if l.Err != nil {
			return l.Err
		}
		text, name, named := strings.Cut(text, "\x00")
		limit, err := weir.ParseLimit(text)
		if err != nil {
			return err
		}
		if named {
			limit = limit.Named(name)
		}
		l.limits = append(l.limits, limit)
		return nil
	}
	record := map[byte]func() error{
		sectionNarrow: l.narrow, sectionCount: l.counted, sectionWide: l.wide, sectionReservation: l.reservation,
	}[kind]
	if record == nil {
		return fmt.Errorf("%w: unknown section %q", snapfile.ErrDamaged, kind)
	}
	for range n {
		if err := record(); err != nil {
			return err
		}
		if l.Err != nil {
			return l.Err
		}
	}
	return nil
}

func (l *loader) narrow() error {
	hash, w := l.Word(), l.Word()
	us, rem := unpack(w)
	if l.Err != nil || hash == 0 || us > lastInstant+algo.MaxSpan {
		return l.damaged("narrow state")
	}
	us = max(1, us-l.ahead)
	if w = pack(us, rem); w <= pack(l.now, 0) {
		return nil
	}
	if err := l.acquire(1); err != nil {
		return err
	}
	l.store.addNarrow(l.store.shard(hash), hash, us, rem, l.now)
	return nil
}

// counted reads the tokens of a narrow state, which do not fit its word.
func (l *loader) counted() error {
	hash, tokens := l.Word(), l.Int()
	if l.Err != nil || hash == 0 || tokens < maxUnits || tokens > 2*algo.MaxCount {
		return l.damaged("count")
	}
	if e := l.store.narrows.find(hash); e != nil { // otherwise the window has ended
		us, _ := unpack(e.Word.Load())
		e.Word.Store(l.store.shard(hash).word(hash, us, tokens, l.now))
	}
	return nil
}

func (l *loader) wide() error {
	hash, limit := l.Word(), l.limit()
	raw := l.Bytes(8 * min(l.Int(), math.MaxInt32))
	if l.Err != nil {
		return l.Err
	}
	rule := limit.Spec().Rule
	words := make([]int64, len(raw)/8)
	n := rule.Words()
	if extra := len(words) - n; hash == 0 || rule.Variable() && len(words)%n != 0 || !rule.Variable() && (extra < 0 || extra > 1) {
		return l.damaged("wide state")
	}
	for i := range words {
		words[i] = int64(binary.LittleEndian.Uint64(raw[8*i:]))
	}
	if l.ahead > 0 {
		rule.Shift(words, l.ahead)
	}
	if rule.Until(words) <= l.now {
		return nil
	}
	if err := l.acquire(weight(slab.SizeOf(len(words)))); err != nil {
		return err
	}
	sh := l.store.shard(hash)
	if b := narrow(limit); b != nil { // as earlier versions wrote fixed windows
		us, rem := b.Pair(words)
		l.store.addNarrow(sh, hash, us, rem, l.now)
		return nil
	}
	l.store.addWide(sh, hash, sh.wide.keep(limit, words))
	return nil
}

func (l *loader) reservation() error {
	h := reservation.Record{Name: reservation.Name{State: l.Word(), ID: l.Word()}}
	limit := l.limit()
	flags := l.Int()
	h.Settled, h.Place = flags&1 != 0, uint8(flags>>1)
	h.N, h.Actual, h.At, h.Deadline = l.Int(), l.Int(), l.Int(), l.Int()
	sh := l.store.shard(h.State)
	if l.Err != nil || h.State == 0 || h.ID == 0 || flags < 0 || h.Place > uint8(algo.Pool) || sh.reservations.Find(h.Name) != nil {
		return l.damaged("reservation")
	}
	if err := l.acquire(1); err != nil {
		return err
	}
	h.At, h.Deadline = max(1, h.At-l.ahead), max(1, h.Deadline-l.ahead)
	h.Limit = sh.wide.limits.retain(limit)
	sh.reservations.Add(h) // an expired one is applied with the next request to the shard
	l.store.reservations.Add(1)
	if e := sh.narrow.Load().Find(h.State); e != nil {
		e.Word.Or(pin)
	}
	return nil
}

// limit reads the number of a limit of the file.
func (l *loader) limit() weir.Limit {
	i := l.Int()
	if l.Err == nil && (i < 0 || i >= int64(len(l.limits))) {
		l.Err = fmt.Errorf("%w: limit %d of %d", snapfile.ErrDamaged, i, len(l.limits))
	}
	if l.Err != nil {
		return weir.Limit{}
	}
	return l.limits[i]
}

// damaged returns the error of a record that could not be read, or has impossible
// values.
func (l *loader) damaged(record string) error {
	if l.Err != nil {
		return l.Err
	}
	return fmt.Errorf("%w: invalid %s", snapfile.ErrDamaged, record)
}

// acquire takes n keys of MaxKeys.
func (l *loader) acquire(n int64) error {
	if most := l.store.config.MaxKeys; !l.store.acquire(n, int64(most)) {
		return fmt.Errorf("got more active keys than MaxKeys (%d): raise MaxKeys or delete the snapshot", most)
	}
	return nil
}
