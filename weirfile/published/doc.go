// Package published keeps policies in Redis, so that every node uses the same ones.
//
//	v, err := published.Publish(ctx, conn, published.Draft{Text: yaml})
//	…
//	f := &published.Poller{…}
//	f.Run(ctx, 0) // calls back within a second of every new version
//
// The text of a policy file is published; nodes use its policies. A version never changes.
// A rollback publishes the text of an earlier version under a new number. The last
// versions are kept.
//
// # In Redis
//
// One hash, weir:1:policies, has these fields:
//
//   - version: the number of the current version;
//   - id: a random text per published version;
//   - v:7 and so on: a version in JSON;
//   - edge: the current version for nginx (see edge/nginx), with its number.
//
// It has no expiry. It has the prefix of the keys of limits, so
// the same Redis user may access it. It is never one of them, because their names continue
// with a brace.
package published
