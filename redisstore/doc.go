// Package redisstore keeps the state of limits in Redis or Valkey, so that several
// processes share them.
//
//	conn, err := rueidis.Open("redis://127.0.0.1:6379") // or goredis.New(client)
//	…
//	store, err := redisstore.New(conn, redisstore.Config{})
//	…
//	lim, err := weir.New(store, weir.MustLimit("10/s burst 20"), weir.Config{})
//
// The package speaks to no server itself: modules contrib/rueidis and
// contrib/goredis make a [Conn] of a client. Redis from 6.2 on and Valkey will
// do, standalone, with sentinels, or as a cluster.
//
// # Guarantees
//
// Every decision is made by a script in Redis, by Redis' clock, in one round trip,
// with the same answers to the token as package memstore gives. A denial writes
// nothing. Callers that come while a round trip is under way share the next one.
//
// A call is sent again only after Redis said that it did not run: NOSCRIPT, or a
// redirection in a cluster. After anything else, such as a timeout or a closed
// connection, it may have run: the caller gets weir.ErrUnavailable, and the
// tokens may be charged.
//
// Redis replicates asynchronously. When a replica takes over, what its primary
// had not passed on yet is lost: as many tokens may be admitted once more as were
// charged in that time. Keys that Redis evicts start afresh: it needs
// maxmemory-policy noeviction, which [Store.Probe] checks.
//
// # Cluster
//
// The keys of one slot are decided together in one step. DoAll over several slots
// asks every slot first and charges then, and gives back if one denies after all;
// so others may be denied for tokens that go back a moment later, and a process
// that dies in between leaves tokens charged. It never admits too many.
// Config.Slot puts keys that belong together into one slot.
//
// # Keys
//
//	weir:1:{user:42}:10/s+burst+20            state, a string
//	weir:1:{user:42}:10/s+burst+20:holds      reservations, a hash
//	weir:1:{user:42}:10/s+burst+20:deadlines  their deadlines, a sorted set
//
// The 1 is the version of the format, in braces stands the key, then the limit.
// Of a key, letters, digits and -._~/@=,: are as they are, a space is '+', and all
// else '%' and two digits; of one that is longer than 100 bytes then, '#' and the
// SHA-256. So no key can name the state of another, or choose its slot. A state is
// a text, except that of a sliding_log, which is a sorted set with the text as its
// first member:
//
//	$ redis-cli GET 'weir:1:{user:42}:10/s+burst+20'
//	"[1767225601900000,0,1767225600000000]"
//
// The numbers are those of the algorithm, here the instant at which the bucket
// will be full again in µs and a remainder, and last the instant of the decision
// that wrote them. While there are reservations, [first, last deadline] follow.
// Every key has a TTL: it is gone when it says nothing any more.
//
// # Access
//
// A user of Redis needs no more than
//
//	ACL SETUSER weir on >secret resetchannels ~weir:1:* -@all +evalsha +eval +time +get +set +del +hget +hset +hdel +zadd +zrem +zrange +zrangebyscore +zrevrangebyscore +zremrangebyscore +zcount +pexpire +ping +info +cluster|slots +cluster|shards +asking
//
// where weir:1:* follows Config.Prefix. The last three are for clusters, +info for
// [Store.Probe].
//
// # Time
//
// Redis' clock decides. If it is set back by less than a limit takes to fill,
// time stands still for a key until the clock is there again; if by more, the
// key's state goes back with it. With Config.Clock the clocks of the processes
// decide in its place.
package redisstore
