// Package published keeps policies in Redis, so that every node has the same ones.
//
//	v, err := published.Publish(ctx, conn, published.Draft{Text: yaml})
//	…
//	f := &published.Follower{…}
//	f.Run(ctx) // calls back within a second of every new version
//
// What is published is the text of a policy file, of which nodes take the policies. A
// version is never changed; going back to one publishes its text once more, under a
// new number. The last versions are kept.
//
// # In Redis
//
// One hash, weir:1:policies: its field version is the number of the current version, id
// a text that is another for every one that became current, and a field such as v:7
// holds a version in JSON. The field edge holds the current version as nginx decides by
// it (see edge/nginx), with its number. The key has no time to live: it is
// the one key of Weir that has none. It begins as the keys of limits do, so that the
// same user of Redis may read and write it, and is never one of them, whose names go
// on with a brace.
package published
