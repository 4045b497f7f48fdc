package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// A Conn sends commands to Redis. Modules contrib/rueidis and contrib/goredis implement it
// over a client. An implementation keeps these rules:
//
//  1. Do sends all commands to one node before it waits for a reply, and puts the reply to
//     cmds[i] into replies[i].
//  2. A command is sent once. It is repeated only after Redis reported that it did not run
//     it: MOVED, ASK, TRYAGAIN, LOADING, CLUSTERDOWN. After any other error, such as a
//     timeout or a closed connection, it may have run.
//  3. An error reply of Redis is a [ServerError] with its text. Any other error means that
//     the reply is unknown.
//  4. Do returns when ctx ends, with the error of ctx for missing replies.
//  5. In a cluster, a command goes to the primary of the slot of its keys, and a command
//     without keys to any node.
//  6. It is safe for concurrent use.
type Conn interface {
	Do(ctx context.Context, cmds []Command, replies []Reply)

	// Cluster reports whether keys are spread over the slots of a Redis Cluster.
	Cluster() bool
}

// A Command is one command for Redis.
type Command struct {
	Head []string // before the keys: "EVALSHA", the SHA-1, "2"
	Keys []string // all of one slot
	Args []string // after the keys
}

// A Reply has the elements of an array that Redis returned, or a single text or number.
type Reply struct {
	Items []string
	Err   error
}

// A ServerError is an error reply of Redis, such as "NOSCRIPT No matching script.".
type ServerError string

// Error implements error.
func (e ServerError) Error() string { return string(e) }

// ErrCluster reports that a node of a Redis Cluster was reached through a client for one
// server, which does not follow redirections. Nothing was decided.
var ErrCluster = errors.New("the server is a node of a Redis Cluster, and the client is for one server: use redis+cluster:// or a client for clusters")

// redirected returns the error of a call that another node has to decide. A client for
// clusters returns it if it was redirected too often.
func redirected(err error, cluster bool) error {
	if cluster {
		return fmt.Errorf("redirected too often, nothing was decided: keys are moving to another node: %w", err)
	}
	return fmt.Errorf("%w: %w", ErrCluster, err)
}

// refused reports whether Redis did not run a command, for the given reason.
func refused(err error, reason string) bool {
	if err == nil {
		return false // nearly always; e would be allocated
	}
	var e ServerError
	return errors.As(err, &e) && strings.HasPrefix(string(e), reason)
}
