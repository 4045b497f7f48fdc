// Package snapfile has a file of numbers that is replaced in one step and verified
// when it is read. After a crash the old or the new file exists, and a damaged file is
// refused.
//
//	"weirmem", the version as one byte
//	the content: bytes, and numbers of 8 bytes each, little endian
//	the CRC-64 (ECMA) of all that
package snapfile

import (
	"errors"
	"hash/crc64"
)

const (
	magic   = "weirmem"
	version = 1

	// HeaderLen and SumLen are the numbers of bytes before and after the content.
	HeaderLen = len(magic) + 1
	SumLen    = 8
)

var table = crc64.MakeTable(crc64.ECMA)

// ErrDamaged reports a file that is not as it was written.
var ErrDamaged = errors.New("damaged")
