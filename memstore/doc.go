// Package memstore keeps the state of keys in this process.
//
//	store, err := memstore.New(memstore.Config{})
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//	lim, err := weir.New(store, weir.MustLimit("10/s burst 20"), weir.Config{})
//
// # Guarantees
//
// A decision on a known key allocates nothing, unless its state grows longer. On
// a token bucket or leaky bucket it takes no lock either, unless the key has
// reservations, and a denial writes nothing; other limits take the lock of one
// shard for as long as the decision lasts. States hold no pointers, so the garbage collector doesn't look at them,
// however many they are.
//
// The number of keys is bounded by Config.MaxKeys. A key whose state is as if
// never used makes way for a new one; a key that owes never does. When all owe,
// Config.Full says what a new key meets. Nothing sweeps in the background: room
// is made by those who need it, in steps of bounded work. So where many thousand
// keys are known and nearly all of them owe, a new key may be refused a few times
// before the one that can be dropped is found.
//
// # Keys
//
// The store doesn't keep keys, but a hash of 64 bits of the key and the limit,
// seeded at random. Two of n states share one by accident with a chance of
// about n²/2^65: of a million states, 1 in 37 million. They would then be limited
// together. As the seed is secret, nobody can bring that about; with a snapshot it
// is in the file, which only its owner can read. A reservation is known by the
// hash of its state and another of 64 bits of its id.
//
// # Memory
//
// A key takes 21 to 32 bytes under a token bucket or leaky bucket, as long as
// the rate is such that count/gcd(count, period in µs) is at most 1024, which
// nearly all are. Under another limit it takes 30 to 50 bytes and its state: 16
// bytes of a fixed window or other token bucket, 8 for each segment of a sliding
// window, 16 for each admission that a sliding log remembers, 24 for each slot in
// use. A reservation takes about 130 bytes.
//
// # Time
//
// The store's clock never goes back. If none is configured, it is the wall clock
// as it was at New, and from then on the monotonic clock.
//
// # Concurrency
//
// All methods are safe for concurrent use. Each decision is linearizable, also
// one of many requests together.
package memstore
