package memstore

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore/internal/hold"
	"github.com/floodweir/weir/memstore/internal/siphash"
	"github.com/floodweir/weir/memstore/internal/slab"
)

// A snapshot is everything that a store knows of keys that owe, in a file:
//
//	"weirmem", the version as one byte
//	the two words of the key of the store's hash
//	the instant at which it was written
//	sections, each begun by one byte:
//	  limit   the length of its text and the text; limits are counted from 0
//	  narrow  their number; of each, hash and word
//	  wide    their number; of each, hash, limit, number of words, words
//	  hold    their number; of each, state, id, limit, flags, n, actual, at, deadline
//	  end
//	the CRC-64 (ECMA) of all that
//
// Numbers are 8 bytes each, little endian. A hash is all that the store knows of
// a key, and it is good for the next process only under the same key of the hash:
// so that is in the file too, and the file is readable by its owner only.
const (
	magic   = "weirmem"
	version = 1

	sectionLimit  = 'L'
	sectionNarrow = 'N'
	sectionWide   = 'W'
	sectionHold   = 'H'
	sectionEnd    = 'E'

	headerLen = len(magic) + 1 + 3*8
	crcLen    = 8
)

var crcTable = crc64.MakeTable(crc64.ECMA)

// A saver writes snapshots at intervals.
type saver struct {
	stop func()
	mu   sync.Mutex
	err  error // of the latest snapshot
	done int64 // snapshots written
}

// resume makes s know what its snapshot says, and begins to write new ones.
func (s *Store) resume() error {
	file, err := os.ReadFile(s.config.Snapshot)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		var key [16]byte
		rand.Read(key[:]) // never fails
		s.hash = stableHasher(siphash.Key{K0: binary.LittleEndian.Uint64(key[:]), K1: binary.LittleEndian.Uint64(key[8:])})
		if err := s.save(false); err != nil { // better now than at the end
			return err
		}
	case err != nil:
		return fmt.Errorf("memstore: snapshot: %w", err)
	default:
		if err := s.load(file); err != nil {
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
				_ = s.save(false) // Stats say so
			}
		}
	}()
	return nil
}

// save writes the snapshot; one at a time. To seal it is to leave nothing behind in the store:
// no decision is made that the snapshot doesn't know.
func (s *Store) save(seal bool) error {
	err := s.writeFile(seal)
	s.saver.mu.Lock()
	defer s.saver.mu.Unlock()
	if s.saver.err = err; err == nil {
		s.saver.done++
	}
	return err
}

// writeFile replaces the snapshot file in one step: after a crash there is the
// old one or the new one.
func (s *Store) writeFile(seal bool) (err error) {
	path := s.config.Snapshot
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("memstore: snapshot: %w", err)
	}
	err = s.write(f, seal)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("memstore: snapshot: %w", err)
	}
	return nil
}

// syncDir makes a rename in dir last, where a directory can be synced.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// write writes a snapshot, shard by shard: what one shard says is of one instant,
// and shards are read one after the other.
func (s *Store) write(f *os.File, seal bool) error {
	e := encoder{limits: map[string]int64{}}
	e.buf.WriteString(magic)
	e.buf.WriteByte(version)
	e.word(s.hash.key.K0)
	e.word(s.hash.key.K1)
	e.int(s.clock.now())
	for i := range s.shards {
		s.writeShard(&e, &s.shards[i], seal)
		if e.buf.Len() > 1<<20 {
			if err := e.flush(f); err != nil {
				return err
			}
		}
	}
	e.buf.WriteByte(sectionEnd)
	if err := e.flush(f); err != nil {
		return err
	}
	e.word(e.crc)
	return e.flush(f)
}

type encoder struct {
	buf    bytes.Buffer
	limits map[string]int64 // by text, their numbers in the file
	crc    uint64
}

func (e *encoder) word(w uint64) {
	e.buf.Write(binary.LittleEndian.AppendUint64(e.buf.AvailableBuffer(), w))
}

func (e *encoder) int(i int64) { e.word(uint64(i)) }

func (e *encoder) flush(f *os.File) error {
	e.crc = crc64.Update(e.crc, crcTable, e.buf.Bytes())
	_, err := f.Write(e.buf.Bytes())
	e.buf.Reset()
	return err
}

// limit writes a limit, unless it is in the file already.
func (e *encoder) limit(l weir.Limit) {
	text := l.String()
	if _, ok := e.limits[text]; ok {
		return
	}
	e.limits[text] = int64(len(e.limits))
	e.buf.WriteByte(sectionLimit)
	e.int(int64(len(text)))
	e.buf.WriteString(text)
}

// writeShard writes what a shard knows of keys that owe.
func (s *Store) writeShard(e *encoder, sh *shard, seal bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.open(sh, s.clock.now())
	for _, l := range sh.wide.limits.list {
		if l.n > 0 {
			e.limit(l.limit)
		}
	}
	e.buf.WriteByte(sectionNarrow)
	n := e.count()
	t := sh.narrow.Load()
	for i := range t.Entries {
		x := &t.Entries[i]
		w := x.Word.Load()
		if seal {
			w = x.Word.Swap(gone)
		}
		if w != gone && w&^pin > pack(now, 0) {
			e.word(x.Hash.Load())
			e.word(w &^ pin)
			n.add()
		}
	}
	n.done()
	e.buf.WriteByte(sectionWide)
	n = e.count()
	for i := range sh.wide.Entries {
		x := &sh.wide.Entries[i]
		w := x.Word.Load()
		if x.Hash.Load() == 0 || w == gone {
			continue
		}
		words, limit := sh.wide.state(slab.Ref(w))
		if limit.Rule().Until(words) <= now {
			continue
		}
		e.word(x.Hash.Load())
		e.int(e.limits[limit.String()])
		e.int(int64(len(words)))
		for _, w := range words {
			e.int(w)
		}
		n.add()
	}
	n.done()
	e.buf.WriteByte(sectionHold)
	n = e.count()
	for h := range sh.holds.All() {
		e.hold(h, sh.wide.limits.list[h.Limit].limit)
		n.add()
	}
	n.done()
}

func (e *encoder) hold(h *hold.Hold, l weir.Limit) {
	e.word(h.State)
	e.word(h.ID)
	e.int(e.limits[l.String()])
	flags := int64(0)
	if h.Settled {
		flags = 1
	}
	for _, i := range []int64{flags, h.N, h.Actual, h.At, h.Deadline} {
		e.int(i)
	}
}

// A count is a number that is written before it is known.
type count struct {
	e     *encoder
	at, n int
}

func (e *encoder) count() *count {
	c := &count{e: e, at: e.buf.Len()}
	e.int(0)
	return c
}

func (c *count) add() { c.n++ }

func (c *count) done() {
	binary.LittleEndian.PutUint64(c.e.buf.Bytes()[c.at:], uint64(c.n))
}
