package memstore

import (
	"hash/maphash"
	"math/bits"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore/internal/siphash"
)

// A hasher names states and reservations by hashes that a client cannot predict, so a
// client cannot cause a collision.
//
// Without a snapshot it uses the hash of the Go runtime, which is the fastest. Its seed
// cannot be stored. With a snapshot it uses SipHash-1-3, whose key the snapshot keeps.
type hasher struct {
	stable bool
	seed   maphash.Seed
	id     maphash.Seed
	key    siphash.Key
}

func newHasher() hasher { return hasher{seed: maphash.MakeSeed(), id: maphash.MakeSeed()} }

func stableHasher(key siphash.Key) hasher { return hasher{stable: true, key: key} }

// stateHash names the state of the key with hash sum under a limit. It is the exclusive
// or of sum, which is as good as random, and the StateID of the limit: two names are
// equal with a chance of 2^-64. It is never 0.
func stateHash(sum uint64, limit weir.Limit) uint64 { return nameOf(sum, limit.Spec().StateID) }

// nameOf is stateHash for the StateID of a limit.
func nameOf(sum, stateID uint64) uint64 { return max(1, sum^stateID) }

// sum returns the hash of a key.
func (h *hasher) sum(s string) uint64 {
	if h.stable {
		return h.key.Sum(s)
	}
	return maphash.String(h.seed, s)
}

// joined returns the sum of prefix+s.
func (h *hasher) joined(prefix, s string) uint64 {
	switch {
	case prefix == "":
		return h.sum(s)
	case h.stable:
		return h.sum(prefix + s)
	}
	var buf [128]byte
	return maphash.Bytes(h.seed, append(append(buf[:0], prefix...), s...))
}

// reservation names the reservation of a request, by 64 bits beside the 64 of the state. It
// is never 0.
func (h *hasher) reservation(r *weir.Request) uint64 {
	id := r.ID
	if scope := r.Limit.Spec().Scope; scope != "" {
		id = scope + id
	}
	if h.stable {
		return max(1, siphash.Key{K0: ^h.key.K0, K1: bits.Reverse64(h.key.K1)}.Sum(id))
	}
	return max(1, maphash.String(h.id, id))
}
