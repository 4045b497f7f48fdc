// Package pgstore stores the state of limits in PostgreSQL 14 or later, for teams that have no
// Redis.
//
//	db, err := sql.Open("pgx", "postgres://weir@127.0.0.1/weir")
//	…
//	store, err := pgstore.New(db, pgstore.Config{})
//	…
//	lim, err := weir.New(store, weir.MustLimit("10/s burst 20"), weir.Config{})
//
// The package has no driver: github.com/jackc/pgx/v5/stdlib and github.com/lib/pq work. The
// database needs the schema of [Migrations], which are files for goose.
//
// # Guarantees
//
// Every decision is strict: it is made on the state in the database, by the clock of the server,
// and equals that of package memstore to the token. A denial writes nothing.
//
// The function weir_decide decides a request, or several together, in one call, and concurrent
// callers share calls. It locks rows in the order of their names, so calls cannot deadlock. Two
// calls decide reservations, slots, warm-ups, initial tokens, logs, tenants and changes of
// limits: one reads the rows, and one writes them if nothing has written them since.
//
// A call is repeated only if the server reports that it rolled it back. After any other error,
// such as a timeout or a closed connection, it may have run. The caller then gets
// weir.ErrUnavailable, and the tokens may be charged.
//
// A decision is returned after its commit. With synchronous_commit on, the default, a crash of
// the server loses none. With it off, a crash loses the charges of the last moments, at most
// three times wal_writer_delay, and as many tokens may be admitted again. A failover to an
// asynchronous replica loses those that it had not received.
//
//	ALTER TABLE weir_states SET UNLOGGED
//
// writes no log for states. After a crash all keys are then as if never used.
//
// # Rows
//
// A row of weir_states has the state of one key under one limit, named PREFIX:KEY LIMIT, such as
// "weir:user:42 10/s burst 20". A key or limit of more than 200 bytes is '#' and its SHA-256. A
// row expires when its state equals that of an unused key. Calls that insert rows delete expired
// ones, a few pages at a time.
//
// # Time
//
// The clock of the server decides. If it is set back, the state of a key follows as in package
// redisstore. With Config.Clock, the clocks of the processes decide.
package pgstore
