package redisstore

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// longest is the largest number of bytes of an encoded key in a name. A longer key is
// replaced by '#', which no encoded key contains, and its SHA-256.
const longest = 100

const (
	reservationsSuffix = ":holds"
	deadlinesSuffix    = ":deadlines"
)

// stateName returns the name of the state of key under a limit, and its hash tag:
//
//	weir:1:{key}:limit       the tag is the key
//	weir:1:{tag}:key:limit   Config.Slot returned the tag
//
// An encoded limit has no ':', and an encoded key no brace, so two different (tag, key,
// limit) never have the same name.
func (s *Store) stateName(key, limit string) (name, tag string) {
	k := encodeKey(key)
	tag = k
	var b strings.Builder
	if s.config.Slot != nil {
		if t := s.config.Slot(key); t != "" {
			tag = encodeKey(t)
			b.Grow(len(s.prefix) + len(tag) + len(k) + len(limit) + 4)
			b.WriteString(s.prefix)
			b.WriteByte('{')
			b.WriteString(tag)
			b.WriteString("}:")
			b.WriteString(k)
			b.WriteByte(':')
			b.WriteString(limit)
			return b.String(), tag
		}
	}
	b.Grow(len(s.prefix) + len(k) + len(limit) + 3)
	b.WriteString(s.prefix)
	b.WriteByte('{')
	b.WriteString(k)
	b.WriteString("}:")
	b.WriteString(limit)
	return b.String(), tag
}

// encodeKey encodes a key for a place between braces and bounds its length. Clients may
// choose keys.
func encodeKey(key string) string {
	if len(key) <= longest {
		if e := encode(key, true); len(e) <= longest {
			return e
		}
	}
	sum := sha256.Sum256([]byte(key))
	return "#" + hex.EncodeToString(sum[:])
}

// encode replaces a space by '+', and every byte that is not plain by '%' and two
// hexadecimal digits. A ':' is plain if colons is set.
func encode(s string, colons bool) string {
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

// slotOf returns the slot of a hash tag in a Redis Cluster: CRC-16/XMODEM mod 16384.
func slotOf(tag string) uint16 {
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
