package redisstore

import "context"

// A Conn sends commands to Redis. Modules contrib/rueidis and contrib/goredis
// make one of a client. An implementation keeps these rules:
//
//  1. Do sends all commands before it waits for a reply, as far as they go to one
//     node, and puts the reply to cmds[i] into replies[i].
//  2. A command is sent once. It is sent again only after Redis said that it did
//     not run it: MOVED, ASK, TRYAGAIN, LOADING, CLUSTERDOWN. After anything else,
//     such as a timeout or a closed connection, it may have run.
//  3. An error that Redis answered with is a [ServerError] with its text. Any
//     other error means that the reply is not known.
//  4. Do returns when ctx ends, with its error for what is missing.
//  5. In a cluster a command goes to the primary of its keys' slot; one without
//     keys to any node.
//  6. It is safe for concurrent use.
type Conn interface {
	Do(ctx context.Context, cmds []Command, replies []Reply)

	// Cluster reports whether keys are spread over the slots of a Redis Cluster.
	Cluster() bool
}

// A Command is one command for Redis.
type Command struct {
	Head []string // what stands before the keys: "EVALSHA", the SHA-1, "2"
	Keys []string // all of one slot
	Args []string // what stands behind the keys
}

// A Reply is what Redis answered: the elements of an array, or the one text or
// number that the answer is. It holds only texts and numbers.
type Reply struct {
	Items []string
	Err   error
}

// A ServerError is an error that Redis answered with, such as "NOSCRIPT No
// matching script.".
type ServerError string

// Error implements error.
func (e ServerError) Error() string { return string(e) }
