// Package redisinventory is a sale.Inventory in Redis 6.2 or later, or Valkey: alone, behind Sentinel,
// or as a Cluster.
//
//	client, err := rueidis.NewClient(…)
//	gate, err := redisinventory.New(client, redisinventory.Config{})
//	…
//	defer gate.Stop()
//
// Every step of a sale is one script, so nothing happens between reading and writing, and a
// reservation and its entry of the stream are written together or not at all. Scripts are
// named by their hash; the text is sent only to a server that does not have it.
//
// # Keys
//
// All that a sale has is in seven keys, "{prefix}{<sale>}:" and then
//
//	state   a hash: the epoch, the units, the clock, and what else is counted
//	users   a hash: where each user stands
//	line    a sorted set: who waits, by rank
//	out     a sorted set: who is admitted, by the end of it
//	res     a hash: the reservations
//	done    a hash: the tickets and the keys that have got a reservation
//	stream  a stream: the reservations that are not orders yet, and its group "clerks"
//
// The braces put them into one slot of a Cluster. Each of them exists for as long as the
// state does, empty or not: if one is missing (it was deleted, or evicted), the state is
// damaged and every method answers ErrStale, rather than take what is missing for empty. A
// state that is being built is under names of its own with ":new:<number>", until the last
// step of Open gives it its place.
//
// Drop deletes it all. What is never dropped expires 7 days after the end of the sale, and
// what was being built and never got its place, after ten minutes.
//
// # Which server answers
//
// A replica that became the primary may not have the last writes of the one before it, and
// keeps the epoch all the same. Open therefore notes the replication ID of the server, which
// changes with every restart and every promotion. A script that grants a reservation, admits
// or counts compares it, and so does a watch of this process, each second and whenever a
// call fails. If it differs the state is closed, for every process, and all methods answer
// ErrStale: the sale is to be opened at its next epoch, from the Ledger. This process also
// remembers it for ten minutes, so that a server of before that comes back is not believed.
//
// The same happens, without need but by the same way, when the slot of a sale moves to
// another node of a Cluster: the sale is opened again there. While the slot's keys are on
// two nodes, calls fail with ErrUnavailable and change nothing. A server whose last replica
// left it changes its ID after repl-backlog-ttl (an hour); this costs one opening too.
//
// What the server acknowledges is as durable as it keeps it. With "appendonly yes" and
// "appendfsync always" a crash of the server loses nothing; with "everysec", up to the last
// two seconds, also if the process alone dies; a failover loses what the replica had not
// got. What was lost is no order, and the Ledger tells its buyer so. Open refuses
// a server that may evict keys (it has a maxmemory, and a policy other than noeviction); if
// that is configured later, a key that was evicted is noticed all the same.
//
// # Commands
//
// A user of Redis with an access list needs, beside what its client needs: EVAL, EVALSHA,
// TIME, INFO, EXISTS, UNLINK, RENAME, PEXPIRE, HSET, HSETNX, HGET, HMGET, HLEN, ZADD, ZREM,
// ZREMRANGEBYRANK, ZCARD, ZCOUNT, ZRANK, ZRANGEBYSCORE, XADD, XLEN, XREADGROUP, XAUTOCLAIM,
// XPENDING, XACK, XDEL, and XGROUP.
//
// # Errors
//
// A connection that fails, a call that takes longer than Config.Deadline, and the replies of
// a server that cannot serve now (LOADING, READONLY, MASTERDOWN, CLUSTERDOWN, TRYAGAIN, OOM,
// BUSY and others) wrap sale.ErrUnavailable. Nothing is sent twice by this package: whether
// what failed has happened is not known. Reserve may be called again with the same ticket,
// and answers with what the first call got; Open, Close, Return, SetStock, SetPaid, Done and
// Drop may be called again too.
package redisinventory
