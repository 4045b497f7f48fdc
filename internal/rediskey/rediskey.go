// Package rediskey encodes keys of limits for the names of keys in Redis, and computes their slots in
// a Redis Cluster.
package rediskey

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Longest is the largest number of bytes of an encoded key in a name. A longer key is
// replaced by '#', which no encoded key contains, and its SHA-256.
const Longest = 100

// EncodeKey encodes a key for a place between braces and bounds its length. Clients may
// choose keys.
func EncodeKey(key string) string {
	if len(key) <= Longest {
		if e := Encode(key, true); len(e) <= Longest {
			return e
		}
	}
	sum := sha256.Sum256([]byte(key))
	return "#" + hex.EncodeToString(sum[:])
}

// Encode replaces a space by '+', and every byte that is not plain by '%' and two
// hexadecimal digits. A ':' is plain if colons is set.
func Encode(s string, colons bool) string {
	plain := true
	for i := 0; i < len(s) && plain; i++ {
		plain = isPlain(s[i], colons)
	}
	if plain {
		return s
	}
	const digits = "0123456789ABCDEF"
	b := make([]byte, 0, len(s)+16)
	for i := range len(s) {
		switch c := s[i]; {
		case isPlain(c, colons):
			b = append(b, c)
		case c == ' ':
			b = append(b, '+')
		default:
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return string(b)
}

func isPlain(c byte, colons bool) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	case c == ':':
		return colons
	}
	return strings.IndexByte("-._~/@=,", c) >= 0
}

// Slot returns the slot of a hash tag in a Redis Cluster: CRC-16/XMODEM mod 16384.
func Slot(tag string) uint16 {
	var crc uint16
	for i := range len(tag) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^tag[i]]
	}
	return crc % 16384
}

var crcTable = func() (t [256]uint16) {
	for i := range t {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		t[i] = crc
	}
	return t
}()
