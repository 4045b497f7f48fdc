// Package redisstore stores the state of limits in Redis or Valkey, so that several
// processes share them.
//
//	conn, err := rueidis.Open("redis://127.0.0.1:6379") // or goredis.New(client)
//	…
//	store, err := redisstore.New(conn, redisstore.Config{})
//	…
//	lim, err := weir.New(store, weir.MustLimit("10/s burst 20"), weir.Config{})
//
// The package has no client. Modules contrib/rueidis and contrib/goredis make a [Conn], or
// a store with the default configuration, from a client that the program has. Redis 6.2 or
// later and Valkey are supported: standalone, with sentinels, and as a cluster.
//
// # Guarantees
//
// A script in Redis makes every decision, by the clock of Redis, in one round trip. Its
// decisions equal those of package memstore to the token. A denial writes nothing.
// Concurrent callers share round trips.
//
// A call is repeated only after Redis reported that it did not run: NOSCRIPT, or a
// redirection in a cluster. After any other error, such as a timeout or a closed
// connection, it may have run. The caller then gets weir.ErrUnavailable, and the tokens may
// be charged.
//
// Redis replicates asynchronously. After a failover, charges that the primary had not
// replicated are lost, and as many tokens may be admitted again. An evicted key is reset,
// so Redis needs maxmemory-policy noeviction; [Store.Probe] checks it.
//
// # Cluster
//
// Keys with the same hash tag share a slot and are decided atomically. DoAll over several
// slots first asks every slot, then charges, and returns the charges if a slot denies after
// all. Other requests may be denied for tokens that are returned a moment later. If the
// process ends in between, the tokens stay charged. Config.Slot puts keys into one slot.
//
// # Keys
//
//	weir:1:{user:42}:10/s+burst+20            state, a string
//	weir:1:{user:42}:10/s+burst+20:holds      reservations, a hash
//	weir:1:{user:42}:10/s+burst+20:deadlines  their deadlines, a sorted set
//
// The 1 is the version of the format. The key is in braces, and the limit follows. In a
// key, letters, digits and -._~/@=,: are plain, a space is '+', and any other byte is '%'
// and two digits. A key of more than 100 bytes is '#' and its SHA-256. Therefore a key can
// neither name the state of another key nor choose its slot. A state is a string. The state
// of a sliding_log is a sorted set with the string as its first member:
//
//	$ redis-cli GET 'weir:1:{user:42}:10/s+burst+20'
//	"[1767225601900000,0,1767225600000000]"
//
// The numbers are those of the algorithm: here the instant in µs at which the bucket is
// full, and a remainder. The last number is the instant of the decision that wrote them.
// While there are reservations, [first, last deadline] follow. Every key has a TTL and
// expires within 1.025 s after its state equals that of an unused key.
//
// # Access
//
// The ACL of a Redis user needs
//
//	ACL SETUSER weir on >secret resetchannels ~weir:1:* -@all +evalsha +eval +time +get +mget +exists +set +del +hget +hset +hdel +zadd +zrem +zrange +zrangebyscore +zrevrangebyscore +zremrangebyscore +zcount +pexpire +ping +info +cluster|slots +cluster|shards +asking
//
// where weir:1:* follows Config.Prefix. The last three are for clusters, and +info is for
// [Store.Probe].
//
// # Time
//
// The clock of Redis decides. If it is set back by less than the time that a limit takes to
// refill, the state of a key does not change until the clock has caught up. If it is set
// back by more, the state moves back with it. If it then advances again, no token is given
// twice for the same span: all jumps together give a key at most one full bucket. With Config.Clock, the clocks of the
// processes decide.
package redisstore
