package snapfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
)

// A Reader reads what a Writer wrote, from memory. Err is its first error, after which
// it returns zeros.
type Reader struct {
	Err  error
	rest []byte
}

// NewReader verifies the header and the sum of a file, and returns its reader.
func NewReader(file []byte) (*Reader, error) {
	switch {
	case len(file) < HeaderLen || string(file[:len(magic)]) != magic:
		return nil, errors.New("not a snapshot of this package")
	case file[len(magic)] != version:
		return nil, fmt.Errorf("written in version %d of the format, want version %d", file[len(magic)], version)
	case len(file) < HeaderLen+SumLen:
		return nil, fmt.Errorf("%w: cut short at %d bytes", ErrDamaged, len(file))
	}
	body, sum := file[:len(file)-SumLen], binary.LittleEndian.Uint64(file[len(file)-SumLen:])
	if got := crc64.Checksum(body, table); got != sum {
		return nil, fmt.Errorf("%w: checksum is %016x, want %016x", ErrDamaged, got, sum)
	}
	return &Reader{rest: body[HeaderLen:]}, nil
}

// Len returns the number of bytes left.
func (r *Reader) Len() int { return len(r.rest) }

// Bytes reads n bytes, or none.
func (r *Reader) Bytes(n int64) []byte {
	if n < 0 || n > int64(len(r.rest)) {
		if r.Err == nil {
			r.Err = fmt.Errorf("%w: cut short", ErrDamaged)
		}
		r.rest = nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

// Word reads a number; 0 after an error.
func (r *Reader) Word() uint64 {
	if b := r.Bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Int reads a number.
func (r *Reader) Int() int64 { return int64(r.Word()) }
