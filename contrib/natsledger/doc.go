// Package natsledger stores shares in a key-value bucket of NATS JetStream.
//
//	ledger, err := natsledger.New(ctx, js, natsledger.Config{Replicas: 3}) // a jetstream.JetStream
//	…
//	store, err := share.New(strict, ledger, share.Config{})
//
// A row is the last message of the subject $KV.BUCKET.NAME, where NAME is in base64url. Its version
// is the sequence number of the message, and its TTL deletes it. The leader of the bucket answers
// all reads. Its clock is the ledger's time: the clocks of the servers must be synchronized within
// 1 s. `nats kv` shows a bucket.
package natsledger
