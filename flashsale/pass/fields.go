package pass

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// writer appends the fields of a message. ok is false after a field that is too long.
type writer struct {
	b  []byte
	ok bool
}

func write() *writer {
	return &writer{append(make([]byte, 0, 256), version), true}
}

func (w *writer) text(ts ...string) *writer {
	for _, t := range ts {
		if len(t) > MaxField {
			w.ok = false
			continue
		}
		w.b = append(append(w.b, byte(len(t))), t...)
	}
	return w
}

func (w *writer) num(ns ...int64) *writer {
	for _, n := range ns {
		w.b = binary.BigEndian.AppendUint64(w.b, uint64(n))
	}
	return w
}

// at appends a time in whole milliseconds, rounded down.
func (w *writer) at(ts ...time.Time) *writer {
	for _, t := range ts {
		w.num(t.UnixMilli())
	}
	return w
}

// fields is the unread rest of a message. It is nil after a field that did not fit; further
// fields are then empty, and done returns false.
type fields []byte

func (f *fields) take(n int) []byte {
	if *f == nil || len(*f) < n {
		*f = nil
		return nil
	}
	b := (*f)[:n:n]
	*f = (*f)[n:]
	return b
}

func (f *fields) text() string {
	n := f.take(1)
	if n == nil || n[0] > MaxField {
		*f = nil
		return ""
	}
	return string(f.take(int(n[0])))
}

func (f *fields) num() int64 {
	b := f.take(8)
	if b == nil {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

func (f *fields) at() time.Time { return time.UnixMilli(f.num()).UTC() }

// done reports whether every field was read and nothing is left.
func (f *fields) done() bool { return *f != nil && len(*f) == 0 }

// fits reports whether the signed message is short enough to be opened.
func (w *writer) fits() bool { return w.ok && (len(w.b)+sha256.Size)*4/3 < MaxText }
