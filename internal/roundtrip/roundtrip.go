// Package roundtrip lets a store report the round trips of a request. A store over it can
// then bound a round trip without the time that the request waits in the process.
package roundtrip

import "context"

// An Observer receives the progress of one request. A store that reports nothing counts as
// one that sent the request when it was called. The methods are safe for concurrent use, and
// may be called after the request has ended.
type Observer interface {
	// Queued reports that the request waits in the process.
	Queued()

	// Sent reports that the request was handed to the connection.
	Sent()

	// Replied reports that a reply was read, even if the caller has returned.
	Replied()
}

// Key is the key of an Observer in a context.
var Key any = key{}

type key struct{}

// From returns the Observer of ctx, or one that ignores all reports.
func From(ctx context.Context) Observer {
	if o, ok := ctx.Value(Key).(Observer); ok {
		return o
	}
	return none{}
}

type none struct{}

func (none) Queued()  {}
func (none) Sent()    {}
func (none) Replied() {}
