package memstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"math"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/algo"
	"github.com/floodweir/weir/memstore/internal/hold"
	"github.com/floodweir/weir/memstore/internal/siphash"
	"github.com/floodweir/weir/memstore/internal/slab"
)

var errDamaged = errors.New("damaged")

// load makes s, which is new, know what a snapshot says. After an error s must
// not be used.
func (s *Store) load(file []byte) error {
	switch {
	case len(file) < len(magic)+1 || string(file[:len(magic)]) != magic:
		return errors.New("not a snapshot of this package")
	case file[len(magic)] != version:
		return fmt.Errorf("written in version %d of the format, want version %d", file[len(magic)], version)
	case len(file) < headerLen+1+crcLen:
		return fmt.Errorf("%w: cut short at %d bytes", errDamaged, len(file))
	}
	body, sum := file[:len(file)-crcLen], binary.LittleEndian.Uint64(file[len(file)-crcLen:])
	if got := crc64.Checksum(body, crcTable); got != sum {
		return fmt.Errorf("%w: checksum is %016x, want %016x", errDamaged, got, sum)
	}
	d := &decoder{rest: body[len(magic)+1:]}
	s.hash = stableHasher(siphash.Key{K0: d.word(), K1: d.word()})
	l := &loader{store: s, decoder: d, now: s.clock.now()}
	l.ahead = max(0, d.int()-l.now)
	return l.sections()
}

// A decoder reads numbers. What is wrong is found in bad, once.
type decoder struct {
	rest []byte
	bad  error
}

func (d *decoder) bytes(n int64) []byte {
	if n < 0 || n > int64(len(d.rest)) {
		d.bad, n = fmt.Errorf("%w: cut short", errDamaged), 0
		d.rest = nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) word() uint64 {
	if b := d.bytes(8); len(b) == 8 {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) int() int64 { return int64(d.word()) }

// A loader puts what a decoder reads into a store.
type loader struct {
	*decoder
	store  *Store
	limits []weir.Limit
	now    int64
	ahead  int64 // how far the clock of the snapshot was ahead of ours
}

func (l *loader) sections() error {
	for l.bad == nil {
		section := l.bytes(1)
		if len(section) == 0 {
			break
		}
		if section[0] == sectionEnd {
			if len(l.rest) > 0 {
				return fmt.Errorf("%w: %d bytes after the end", errDamaged, len(l.rest))
			}
			return nil
		}
		if err := l.section(section[0]); err != nil {
			return err
		}
	}
	return l.bad
}

func (l *loader) section(kind byte) error {
	n := l.int()
	if kind == sectionLimit {
		text := string(l.bytes(n))
		if l.bad != nil {
			return l.bad
		}
		limit, err := weir.ParseLimit(text)
		if err != nil {
			return err
		}
		l.limits = append(l.limits, limit)
		return nil
	}
	record := map[byte]func() error{sectionNarrow: l.narrow, sectionWide: l.wide, sectionHold: l.hold}[kind]
	if record == nil {
		return fmt.Errorf("%w: section %q is not known", errDamaged, kind)
	}
	for range n {
		if err := record(); err != nil {
			return err
		}
		if l.bad != nil {
			return l.bad
		}
	}
	return nil
}

func (l *loader) narrow() error {
	hash, w := l.word(), l.word()
	us, rem := unpack(w)
	if l.bad != nil || hash == 0 || us > lastInstant+algo.MaxSpan {
		return l.wrong("narrow state")
	}
	us = max(1, us-l.ahead)
	if w = pack(us, rem); w <= pack(l.now, 0) {
		return nil
	}
	if err := l.room(1); err != nil {
		return err
	}
	l.store.addNarrow(l.store.shard(hash), nil, hash, w)
	return nil
}

func (l *loader) wide() error {
	hash, limit := l.word(), l.limit()
	raw := l.bytes(8 * min(l.int(), math.MaxInt32))
	if l.bad != nil {
		return l.bad
	}
	rule := limit.Rule()
	words := make([]int64, len(raw)/8)
	if n := rule.Words(); hash == 0 || len(words)%n != 0 || len(words) != n && !rule.Variable() {
		return l.wrong("wide state")
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
	if err := l.room(price(slab.SizeOf(len(words)))); err != nil {
		return err
	}
	sh := l.store.shard(hash)
	l.store.addWide(sh, nil, hash, sh.wide.keep(limit, words))
	return nil
}

func (l *loader) hold() error {
	h := hold.Hold{Name: hold.Name{State: l.word(), ID: l.word()}}
	limit := l.limit()
	h.Settled = l.int() != 0
	h.N, h.Actual, h.At, h.Deadline = l.int(), l.int(), l.int(), l.int()
	sh := l.store.shard(h.State)
	if l.bad != nil || h.State == 0 || h.ID == 0 || sh.holds.Find(h.Name) != nil {
		return l.wrong("reservation")
	}
	if err := l.room(1); err != nil {
		return err
	}
	h.At, h.Deadline = max(1, h.At-l.ahead), max(1, h.Deadline-l.ahead)
	h.Limit = sh.wide.limits.hold(limit)
	sh.holds.Add(h) // one that has run out is settled when the shard is next asked
	l.store.holds.Add(1)
	if e := sh.narrow.Load().Find(h.State); e != nil {
		e.Word.Or(pin)
	}
	return nil
}

// limit reads the number of a limit of the file.
func (l *loader) limit() weir.Limit {
	i := l.int()
	if l.bad == nil && (i < 0 || i >= int64(len(l.limits))) {
		l.bad = fmt.Errorf("%w: limit %d of %d", errDamaged, i, len(l.limits))
	}
	if l.bad != nil {
		return weir.Limit{}
	}
	return l.limits[i]
}

// wrong is what is wrong with a record: that it could not be read, or that no
// store wrote it.
func (l *loader) wrong(record string) error {
	if l.bad != nil {
		return l.bad
	}
	return fmt.Errorf("%w: %s that no store wrote", errDamaged, record)
}

// room takes n of MaxKeys.
func (l *loader) room(n int64) error {
	if most := l.store.config.MaxKeys; !l.store.acquire(n, int64(most)) {
		return fmt.Errorf("more keys owe than MaxKeys, %d: a debtor is not forgotten, so raise MaxKeys or remove the file", most)
	}
	return nil
}
