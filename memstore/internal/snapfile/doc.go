// Package snapfile is a file of numbers that is replaced in one step and checked
// when it is read: after a crash there is the old one or the new one, and one
// that was damaged is refused.
//
//	"weirmem", the version as one byte
//	what its owner writes: bytes, and numbers of 8 bytes each, little endian
//	the CRC-64 (ECMA) of all that
package snapfile

import (
	"errors"
	"hash/crc64"
)

const (
	magic   = "weirmem"
	version = 1

	// HeaderLen and SumLen are how many bytes stand before and behind what the
	// file's owner writes.
	HeaderLen = len(magic) + 1
	SumLen    = 8
)

var table = crc64.MakeTable(crc64.ECMA)

// ErrDamaged is a file that nobody wrote so.
var ErrDamaged = errors.New("damaged")
