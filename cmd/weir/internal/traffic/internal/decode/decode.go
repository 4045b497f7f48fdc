// Package decode reads encodings that come from a shared store, and accepts nothing but the output
// of their encoders.
package decode

import (
	"encoding/binary"
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"
)

// A Decoder reads the rest of an encoding. After its first error it returns zeros.
type Decoder struct {
	Data []byte
	Err  error
}

// Fail records an error, unless there is one.
func (d *Decoder) Fail(format string, args ...any) {
	if d.Err == nil {
		d.Err = fmt.Errorf(format, args...)
	}
	d.Data = nil
}

// Byte returns one byte.
func (d *Decoder) Byte() byte {
	if len(d.Data) == 0 {
		d.Fail("got a truncated text")
		return 0
	}
	b := d.Data[0]
	d.Data = d.Data[1:]
	return b
}

// Uvarint returns a number of at most most, in its shortest encoding.
func (d *Decoder) Uvarint(most uint64) uint64 {
	v, n := binary.Uvarint(d.Data)
	switch {
	case n <= 0:
		d.Fail("got a truncated number")
		return 0
	case v > most:
		d.Fail("number: got %d, want at most %d", v, most)
		return 0
	case n > 1 && d.Data[n-1] == 0:
		d.Fail("number: got %d in %d bytes, want the shortest encoding", v, n)
		return 0
	}
	d.Data = d.Data[n:]
	return v
}

// Bytes returns a length and as many bytes, at most most.
// Byte returns one byte.
func (d *Decoder) Bytes(most int) []byte {
	n := int(d.Uvarint(uint64(most)))
	if n > len(d.Data) {
		d.Fail("got a truncated text")
		return nil
	}
	b := d.Data[:n]
	d.Data = d.Data[n:]
	return b
}

// Text returns a printable text of at most most bytes.
func (d *Decoder) Text(most int) string {
	b := d.Bytes(most)
	if !utf8.Valid(b) || slices.ContainsFunc([]rune(string(b)), func(c rune) bool { return !unicode.IsPrint(c) }) {
		d.Fail("text: got %q, want printable UTF-8", b)
		return ""
	}
	return string(b)
}

// Fixed returns a number of n bytes.
func (d *Decoder) Fixed(n int) uint64 {
	var b [8]byte
	for i := range n {
		b[i] = d.Byte()
	}
	return binary.LittleEndian.Uint64(b[:])
}
