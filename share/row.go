package share

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/share/internal/parts"
)

// A row is the state of a limit of a key: the remainder, and the parts of the holders.
type row struct {
	limit   string     // its text
	at      int64      // the instant of the last write, µs
	closed  bool       // nothing is admitted until the shares of a former limit have ended
	rest    parts.Bank // the remainder; its rule is not stored
	holders []holder
}

// A holder is a process with a share, or with demand for one.
type holder struct {
	id     uint64
	seq    uint64     // of its last write
	part   parts.Part // in units of the limit in force
	demand int64      // in units of a rate
	lease  int64      // µs
	old    bool       // its part is of a former limit: it is not renewed
}

// maxHolders bounds the holders of a row. Further processes decide by the remainder.
const maxHolders = 256

// rowFormat is the first byte of a row.
const rowFormat = 1

var errRow = errors.New("share: row of another format: its content is not a row of this version")

// rowName returns the name of the row of a key under a limit.
func rowName(key string, l weir.Limit) string {
	name := strconv.Itoa(len(key)) + ":" + key + l.Spec().State
	if len(name) <= MaxName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "#" + hex.EncodeToString(sum[:])
}

func (r *row) encode() []byte {
	b := []byte{rowFormat}
	b = binary.AppendUvarint(b, uint64(len(r.limit)))
	b = append(b, r.limit...)
	number := func(all ...int64) {
		for _, n := range all {
			b = binary.AppendVarint(b, n)
		}
	}
	number(r.at, bit(r.closed), r.rest.Rate, r.rest.Size, int64(len(r.rest.Words)))
	last := [2]int64{r.at, 0}
	for i, w := range r.rest.Words {
		number(w - last[i&1]) // entries of a log are near the former ones
		last[i&1] = w
	}
	number(int64(len(r.holders)))
	for i := range r.holders {
		h := &r.holders[i]
		b = binary.LittleEndian.AppendUint64(b, h.id)
		number(int64(h.seq), h.part.Rate, h.part.Size, h.demand, h.lease, bit(h.old))
	}
	return b
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// decode reads what encode wrote, except for the rule of the remainder.
func (r *row) decode(b []byte) error {
	bad := len(b) == 0 || b[0] != rowFormat
	number := func() int64 {
		n, size := binary.Varint(b)
		if size <= 0 {
			bad = true
			return 0
		}
		b = b[size:]
		return n
	}
	if bad {
		return errRow
	}
	size, n := binary.Uvarint(b[1:])
	if n <= 0 || size == 0 || size > uint64(len(b)-1-n) {
		return errRow
	}
	r.limit, b = string(b[1+n:1+n+int(size)]), b[1+n+int(size):]
	r.at, r.closed = number(), number() == 1
	r.rest.Rate, r.rest.Size = number(), number()
	words := number()
	if bad || words < 0 || words > int64(len(b)) {
		return errRow
	}
	r.rest.Words = make([]int64, words)
	last := [2]int64{r.at, 0}
	for i := range r.rest.Words {
		last[i&1] += number()
		r.rest.Words[i] = last[i&1]
	}
	holders := number()
	if bad || holders < 0 || holders > int64(len(b)) {
		return errRow
	}
	r.holders = make([]holder, holders)
	for i := range r.holders {
		if len(b) < 8 {
			return errRow
		}
		h := &r.holders[i]
		h.id, b = binary.LittleEndian.Uint64(b), b[8:]
		h.seq, h.part.Rate, h.part.Size, h.demand, h.lease = uint64(number()), number(), number(), number(), number()
		h.old = number() == 1
	}
	if bad || len(b) > 0 {
		return errRow
	}
	return nil
}

// swap returns the swap that writes the row after decisions at now, when the limit in is in force. A
// key is for the error.
func (r *row) swap(key, name string, version uint64, in *parts.Limit, now int64) (Swap, error) {
	r.reopen(in, now)
	r.limit, r.at = in.Text, now
	s := Swap{Name: name, Version: version, Data: r.encode(), Keep: time.Duration(r.keep(now)) * time.Microsecond}
	if len(s.Data) > MaxRow {
		return Swap{}, fmt.Errorf("share: row of %.40q: %w: got %d bytes, want at most %d", key, weir.ErrFull, len(s.Data), MaxRow)
	}
	return s, nil
}

// set puts h in place of the holder with its id, or adds it.
func (r *row) set(h holder) {
	if mine := r.find(h.id); mine != nil {
		*mine = h
		return
	}
	r.holders = append(r.holders, h)
}

// find returns the holder with an id, or nil.
func (r *row) find(id uint64) *holder {
	for i := range r.holders {
		if r.holders[i].id == id {
			return &r.holders[i]
		}
	}
	return nil
}
