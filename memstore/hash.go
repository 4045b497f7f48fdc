package memstore

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"

	"github.com/floodweir/weir"
)

// A hasher names states and reservations by hashes that nobody outside can
// predict, so that nobody can aim at a collision.
//
// In a store without a snapshot it is the runtime's hash, which is the fastest
// there is. Its seed can't be written down, so that a store with a snapshot uses
// SipHash-1-3 under a key of its own, which the snapshot keeps.
type hasher struct {
	stable bool
	seed   maphash.Seed
	id     maphash.Seed
	key    sipKey
}

type sipKey struct{ k0, k1 uint64 }

func newHasher() hasher { return hasher{seed: maphash.MakeSeed(), id: maphash.MakeSeed()} }

func stableHasher(key sipKey) hasher { return hasher{stable: true, key: key} }

// stateHash names the state of the key with hash sum under a limit. The limit's
// fingerprint is mixed in by exclusive or: sum is already as good as random, so
// that two names are the same with a chance of 2^-64. It is never 0.
func stateHash(sum uint64, limit weir.Limit) uint64 {
	return max(1, sum^limit.Fingerprint())
}

// sum is the hash of a key.
func (h *hasher) sum(s string) uint64 {
	if h.stable {
		return h.key.sum(s)
	}
	return maphash.String(h.seed, s)
}

// reservation names a reservation among those of one state: 64 bits beside the
// 64 of the state. It is never 0.
func (h *hasher) reservation(id string) uint64 {
	if h.stable {
		return max(1, sipKey{^h.key.k0, bits.Reverse64(h.key.k1)}.sum(id))
	}
	return max(1, maphash.String(h.id, id))
}

// sum is SipHash-1-3 of s: one round a word and three at the end, as in the hash
// tables of Rust and of Python. Source: Aumasson and Bernstein, SipHash: a fast
// short-input PRF, 2012, with those numbers of rounds.
func (k sipKey) sum(s string) uint64 {
	v0, v1 := k.k0^0x736f6d6570736575, k.k1^0x646f72616e646f6d
	v2, v3 := k.k0^0x6c7967656e657261, k.k1^0x7465646279746573
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

// le64 is the first eight bytes of s, little endian.
func le64(s string) uint64 {
	_ = s[7]
	return binary.LittleEndian.Uint64([]byte{s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]})
}
