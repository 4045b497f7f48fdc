package siphash_test

import (
	"testing"

	"github.com/floodweir/weir/memstore/internal/siphash"
)

// TestSipHash checks that SipHash-1-3 under the key 00 01 … 0f, of messages 00 01 … of so
// many bytes, as in the tests of Rust's standard library.
func TestSipHash(t *testing.T) {
	key := siphash.Key{K0: 0x0706050403020100, K1: 0x0f0e0d0c0b0a0908}
	const message = "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f"
	for n, want := range map[int]uint64{
		0:  0xabac0158050fc4dc,
		1:  0xc9f49bf37d57ca93,
		7:  0xd3927d989bb11140,
		8:  0x369095118d299a8e,
		9:  0x25a48eb36c063de4,
		15: 0xd320d86d2a519956,
		16: 0xcc4fdd1a7d908b66,
	} {
		if got := key.Sum(message[:n]); got != want {
			t.Errorf("of %d bytes: %016x, want %016x", n, got, want)
		}
	}
}
