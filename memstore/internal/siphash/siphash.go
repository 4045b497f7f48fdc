// Package siphash computes SipHash-1-3, a hash that cannot be predicted without its
// key.
package siphash

import (
	"encoding/binary"
	"math/bits"
)

// A Key is a secret of 128 bits.
type Key struct{ K0, K1 uint64 }

// Sum returns SipHash-1-3 of s: one round per word and three at the end, as in the hash
// tables of Rust and Python. Source: Aumasson and Bernstein, SipHash: a fast short-input
// PRF, 2012, with those numbers of rounds.
func (k Key) Sum(s string) uint64 {
	v0, v1 := k.K0^0x736f6d6570736575, k.K1^0x646f72616e646f6d
	v2, v3 := k.K0^0x6c7967656e657261, k.K1^0x7465646279746573
	last := uint64(len(s)) << 56
	for ; len(s) >= 8; s = s[8:] {
		m := le64(s)
		v3 ^= m
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
		v0 ^= m
	}
	for i := range len(s) {
		last |= uint64(s[i]) << (8 * i)
	}
	v3 ^= last
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0 ^= last
	v2 ^= 0xff
	for range 3 {
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	}
	return v0 ^ v1 ^ v2 ^ v3
}

func sipRound(v0, v1, v2, v3 uint64) (uint64, uint64, uint64, uint64) {
	v0 += v1
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v0 = bits.RotateLeft64(v0, 32)
	v2 += v3
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v0 += v3
	v3 = bits.RotateLeft64(v3, 21) ^ v0
	v2 += v1
	v1 = bits.RotateLeft64(v1, 17) ^ v2
	v2 = bits.RotateLeft64(v2, 32)
	return v0, v1, v2, v3
}

// le64 returns the first eight bytes of s, little endian.
func le64(s string) uint64 {
	_ = s[7]
	return binary.LittleEndian.Uint64([]byte{s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]})
}
