// Package redisinventory implements sale.Inventory in Redis 6.2 or later, or Valkey: standalone,
// with Sentinel, or as a Cluster.
//
//	client, err := rueidis.NewClient(…)
//	inventory, err := redisinventory.New(client, redisinventory.Config{})
//	…
//	defer inventory.Stop()
//
// Every operation is one script. A reservation and its entry of the stream are therefore
// written together or not at all. Scripts are called by hash; the text is sent only to a
// server that does not have it.
//
// # Keys
//
// The state of a sale is in eight keys, "{prefix}{<sale>}:" followed by
//
//	state   a hash: the epoch, the stock, the clock and counters
//	users   a hash: the ticket of each user
//	line    a sorted set: present waiting users by rank
//	seen    a sorted set: the same users by the deadline of their presence
//	out     a sorted set: admitted users by the end of their admission
//	res     a hash: the reservations
//	done    a hash: the tickets and keys with a reservation
//	stream  a stream: the reservations without an order, with the group "clerks"
//
// The braces put the keys into one slot of a Cluster. All eight keys exist while the state
// does, even when they are empty. If one is missing because it was deleted or evicted, the
// state is corrupt and every method returns ErrStale. A state that is being built has the
// names of these keys with ":new:<number>" until the last step of Open renames them.
//
// The sorted set "{prefix}workers" holds when each process called Attend last. It expires a day
// after the last call.
//
// Delete deletes all keys. A state that is not deleted expires 7 days after the end of the
// sale, and an incomplete one after ten minutes.
//
// # Failover
//
// A replica that is promoted may lack the last writes, and has the same epoch. Open therefore
// stores the replication ID of the server, which changes with every restart and promotion.
// Scripts that reserve, admit or count compare it. So does a check of this process, if the ID of
// a server has changed, which it reads every second and after a failed call. If the ID differs, the state is closed for all processes and
// methods return ErrStale. The sale then has to be opened at its next epoch, from the ledger.
// This process remembers that for ten minutes, in case the earlier server comes back.
//
// The same happens when the slot of a sale moves to another node of a Cluster. While its keys
// are on two nodes, calls fail with ErrUnavailable and change nothing. A server without
// replicas changes its ID after repl-backlog-ttl (an hour), which also costs one opening.
//
// A reservation is as durable as the server's writes. With "appendonly yes" and "appendfsync
// always" a crash of the server loses nothing. With "everysec" it loses up to two seconds. A
// failover loses what the replica had not received. A lost reservation has no order, and the
// ledger records it as lost. [Warnings] names such settings. Open refuses a server that may evict keys: one with a maxmemory
// and a policy other than noeviction. If that is configured later, an evicted key is detected.
//
// # Commands
//
// A Redis user with an ACL needs the commands of its client and these:
//
//	EVAL EVALSHA TIME INFO EXISTS UNLINK RENAME PEXPIRE HSET HSETNX HGET HMGET HLEN HEXISTS
//	ZADD ZREM ZCARD ZCOUNT ZRANK ZSCORE ZRANGEBYSCORE
//	XADD XLEN XREADGROUP XAUTOCLAIM XPENDING XACK XDEL XGROUP
//
// # Errors
//
// A failed connection, a call longer than Config.Deadline, and replies of a server that cannot
// serve (LOADING, READONLY, MASTERDOWN, CLUSTERDOWN, TRYAGAIN, OOM, BUSY and others) wrap
// sale.ErrUnavailable. This package sends nothing twice, so a failed call may have happened.
// Reserve can be called again with the same ticket and returns the first reservation. Open,
// Close, Transfer, Return, SetStock, SetTerms, SetPaid, Ack and Delete can be called again too.
package redisinventory
