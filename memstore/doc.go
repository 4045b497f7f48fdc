// Package memstore keeps the state of keys in this process.
//
//	lim := memstore.MustLimiter("10/s burst 20")
//
// A store for several limiters, with a configuration:
//
//	store, err := memstore.New(memstore.Config{MaxKeys: 1 << 16})
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//	lim, err := weir.New(store, weir.MustLimit("10/s burst 20"), weir.Config{})
//
// # Guarantees
//
// A decision on an existing key allocates nothing, unless its state becomes longer.
// Under a token bucket or leaky bucket it takes no lock, unless the key has
// reservations or the state a name (weir.Limit.Named), as in policies. A denial
// writes nothing. Other limits take the lock of one shard
// during the decision. States contain no pointers, so the garbage collector does not
// scan them.
//
// Config.MaxKeys bounds the number of keys. A key whose state is as if never used is
// dropped for a new one; a key with debt is never dropped. If all keys have debt,
// Config.Full selects the result. There is no background sweep: a request for a new
// key makes room, in steps of bounded work. So in a store with many thousand keys,
// almost all with debt, a new key may be refused a few times before a sweep finds the
// one to drop.
//
// # Keys
//
// The store does not keep keys, but a hash of 64 bits of the key and the limit, seeded
// at random. Two of n states have the same hash with a chance of about n²/2^65: for a
// million states, 1 in 37 million. They are then limited together. The seed is secret,
// so a client cannot cause this. With a snapshot the seed is in the file, which only
// its owner can read. A reservation is identified by the hash of its state and a hash
// of 64 bits of its id.
//
// # Memory
//
// A key takes 21 to 32 bytes under a token bucket or leaky bucket, if
// count/gcd(count, period in µs) is at most 1024, as for nearly all rates. Under
// another limit it takes 30 to 50 bytes and its state, in bytes:
//
//	fixed window, other token bucket     8, or 16 above 1,023 tokens or units
//	sliding window                       8 per segment
//	sliding log                         16 per stored admission
//	concurrency                         24 per slot in use
//
// A reservation takes about 130 bytes. A key that is as if never used stays for a second after
// that, and for 10 seconds if it takes one entry. So a key in use need not be added again. If its
// room is needed, it is dropped at once.
//
// # Time
//
// The store's clock never goes back. Without Config.Clock it starts at the wall clock
// in New and continues by the monotonic clock. Limiters wait by the store's clock, so
// a test that advances Config.Clock ends their waits.
//
// # Concurrency
//
// All methods are safe for concurrent use. Each decision is linearizable, including
// one of many requests together.
package memstore
