package memstore

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore/internal/reservation"
	"github.com/floodweir/weir/memstore/internal/siphash"
	"github.com/floodweir/weir/memstore/internal/slab"
	"github.com/floodweir/weir/memstore/internal/snapfile"
)

// A snapshot holds the state of all keys that are not as if never used, in a file of
// package snapfile:
//
//	the two words of the key of the store's hash
//	the instant at which it was written
//	sections, each of which starts with one byte:
//	  limit        the length of its text and the text; limits are counted from 0
//	  narrow       their number; for each, hash and word
//	  count        of narrow states before, whose tokens do not fit their words: their number; for
//	               each, hash and tokens
//	  wide         their number; for each, hash, limit, number of words, words
//	  reservation  their number; for each, state, id, limit, flags, n, actual, at, deadline
//	  end
//
// The store keeps only the hash of a key. The next process needs the same key of the
// hash function, so the file contains it, and only its owner can read the file.
const (
	sectionLimit       = 'L'
	sectionNarrow      = 'N'
	sectionCount       = 'C'
	sectionWide        = 'W'
	sectionReservation = 'H'
	sectionEnd         = 'E'
)

// A saver writes snapshots at intervals.
type saver struct {
	stop func()
	mu   sync.Mutex
	err  error // of the latest snapshot
	done int64 // snapshots written
}

// resume loads the snapshot, and starts to write new ones.
func (s *Store) resume() error {
	file, err := os.ReadFile(s.config.Snapshot)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		var key [16]byte
		rand.Read(key[:]) // never fails
		s.hash = stableHasher(siphash.Key{K0: binary.LittleEndian.Uint64(key[:]), K1: binary.LittleEndian.Uint64(key[8:])})
		if err := s.save(false); err != nil { // an error is better now than at the end
			return err
		}
	case err != nil:
		return fmt.Errorf("memstore: snapshot: %w", err)
	default:
		if err := load(s, file); err != nil {
			return fmt.Errorf("memstore: snapshot %s: %w: %w", s.config.Snapshot, weir.ErrInvalid, err)
		}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	s.saver.stop = func() {
		close(stop)
		<-stopped
	}
	go func() {
		defer close(stopped)
		tick := time.NewTicker(s.config.SnapshotEvery)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				_ = s.save(false) // Stats reports the error
			}
		}
	}()
	return nil
}

// save writes the snapshot; one at a time. With seal it leaves no state in the store, so
// no decision is made that the snapshot lacks.
func (s *Store) save(seal bool) error {
	err := snapfile.Replace(s.config.Snapshot, func(w *snapfile.Writer) { s.write(w, seal) })
	if err != nil {
		err = fmt.Errorf("memstore: snapshot: %w", err)
	}
	s.saver.mu.Lock()
	defer s.saver.mu.Unlock()
	if s.saver.err = err; err == nil {
		s.saver.done++
	}
	return err
}

// write writes a snapshot shard by shard. The state of one shard is of one instant.
func (s *Store) write(w *snapfile.Writer, seal bool) {
	e := encoder{Writer: w, limits: map[string]int64{}}
	e.Word(s.hash.key.K0)
	e.Word(s.hash.key.K1)
	e.Int(s.clock.now())
	for i := range s.shards {
		e.shard(s, &s.shards[i], seal)
		e.Flush()
	}
	e.Byte(sectionEnd)
}

// An encoder writes a snapshot.
type encoder struct {
	*snapfile.Writer
	limits map[string]int64 // by text, their numbers in the file
}

// limit writes a limit, unless the file has it already.
func (e *encoder) limit(l weir.Limit) {
	text := limitText(l)
	if _, ok := e.limits[text]; ok {
		return
	}
	e.limits[text] = int64(len(e.limits))
	e.Byte(sectionLimit)
	e.Int(int64(len(text)))
	e.Text(text)
}

// limitText returns a limit as the file names it: with the name of its states, if any.
func limitText(l weir.Limit) string {
	if l.Spec().Named {
		return l.String() + "\x00" + l.Name()
	}
	return l.String()
}

// shard writes the states of a shard that are not as if never used.
func (e *encoder) shard(s *Store, sh *shard, seal bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.beginAt(sh, s.clock.now())
	for _, l := range sh.wide.limits.list {
		if l.n > 0 {
			e.limit(l.limit)
		}
	}
	e.Byte(sectionNarrow)
	n, done := 0, e.Count()
	t := sh.narrow.Load()
	for i := range t.Entries {
		x := &t.Entries[i]
		w := x.Word.Load()
		if seal {
			w = x.Word.Swap(dropped)
		}
		if w != dropped && w&^pin > pack(now, 0) {
			e.Word(x.Hash.Load())
			e.Word(w &^ pin)
			n++
		}
	}
	done(n)
	if len(sh.counts) > 0 {
		e.Byte(sectionCount)
		e.Int(int64(len(sh.counts)))
		for hash, tokens := range sh.counts {
			e.Word(hash)
			e.Int(tokens)
		}
	}
	e.Byte(sectionWide)
	n, done = 0, e.Count()
	for i := range sh.wide.Entries {
		x := &sh.wide.Entries[i]
		w := x.Word.Load()
		if x.Hash.Load() == 0 || w == dropped {
			continue
		}
		words, limit := sh.wide.state(slab.Ref(w))
		if limit.Spec().Rule.Until(words) <= now {
			continue
		}
		e.Word(x.Hash.Load())
		e.Int(e.limits[limitText(limit)])
		e.Int(int64(len(words)))
		for _, w := range words {
			e.Int(w)
		}
		n++
	}
	done(n)
	e.Byte(sectionReservation)
	n, done = 0, e.Count()
	for h := range sh.reservations.All() {
		e.reservation(h, sh.wide.limits.list[h.Limit].limit)
		n++
	}
	done(n)
}

func (e *encoder) reservation(h *reservation.Record, l weir.Limit) {
	e.Word(h.State)
	e.Word(h.ID)
	e.Int(e.limits[limitText(l)])
	flags := int64(h.Place) << 1
	if h.Settled {
		flags |= 1
	}
	for _, i := range []int64{flags, h.N, h.Actual, h.At, h.Deadline} {
		e.Int(i)
	}
}
