package redisstore

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// longest is how many bytes of a key, encoded, are readable in a name. Of a longer
// key the name has the SHA-256, after a '#', which no encoded key contains.
const longest = 100

const (
	holdsSuffix     = ":holds"
	deadlinesSuffix = ":deadlines"
)

// stateName is the name of the state of key under a limit, and its hash tag:
//
//	weir:1:{key}:limit       the tag is the key
//	weir:1:{tag}:key:limit   the tag is Config.Slot's
//
// A limit has no ':' once it is encoded, and a key no brace, so that two
// different (tag, key, limit) never have the same name.
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

// encodeKey makes a key of anybody's choice safe to stand between braces, and
// bounds its length.
func encodeKey(key string) string {
	if len(key) <= longest {
		if e := encode(key, true); len(e) <= longest {
			return e
		}
	}
	sum := sha256.Sum256([]byte(key))
	return "#" + hex.EncodeToString(sum[:])
}

// encode writes what is not plain as '%' and two hexadecimal digits, and a space
// as '+'. A ':' stays if colons says so.
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

// slotOf is the slot of a hash tag in a Redis Cluster: CRC-16/XMODEM mod 16384.
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
