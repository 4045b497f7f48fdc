package weirconnect

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/rpclimit"
)

// A Config tunes a Server. Its zero value trusts no proxy and sends the current draft's
// fields and X-RateLimit-*.
type Config struct {
	// Client says how the client's address is found: by default it is the peer. Of
	// trusted proxies the header X-Forwarded-For or Forwarded is believed.
	Client httplimit.ClientAddress

	// Fields are the headers to send; httplimit.DefaultFields if zero.
	Fields httplimit.Fields

	// RetryJitter is the most that is added to the time after which to retry, at random,
	// so that clients do not all return at once; none if zero, at most an hour.
	RetryJitter time.Duration

	// Local decides for policies whose OnStoreError is Local while the store does not:
	// see package failover. It is required if there is one.
	Local weir.Store

	// MaxWaiters is how many calls, and beside them how many messages, may be held back
	// at a time by policies with an OnDenied.Wait; one more is denied at once.
	// gate.DefaultMaxWaiters if zero.
	MaxWaiters int

	// SettleTTL is how long tokens stay reserved for a call whose end says whether it
	// counts or what it cost; gate.DefaultSettleTTL if zero, 1s to weir.MaxTTL. A call
	// that runs longer is charged at its end; until then others may take what it had
	// reserved.
	SettleTTL time.Duration

	// Messages, if not nil, are policies for every message that comes in on a call whose
	// client streams, beside those for the call. They see what those for the call see,
	// and count when the message is admitted, whatever becomes of the call. A message
	// that a policy holds back keeps the client from sending more. One that is denied
	// ends the stream: Receive returns the denial, then and ever after.
	Messages *policy.Set

	// Observe, if not nil, is told what became of a call or a message, once for each
	// policy that it fell under; see gate.Unsettled for the exception. The path of the
	// attributes is the procedure. It has to be quick.
	Observe func(ctx context.Context, a policy.Attributes, e enforce.Event)
}

// A Server limits calls where they come in. It is a connect.Interceptor for handlers; in
// a client it does nothing.
type Server struct {
	c        Config
	calls    *enforce.Enforcer
	messages *enforce.Enforcer // nil without Config.Messages
	pool     sync.Pool         // of *call
}

// New makes a Server that asks store about the policies of set. An error wraps
// weir.ErrInvalid.
func New(store weir.Store, set *policy.Set, c Config) (*Server, error) {
	calls, messages, err := rpclimit.NewEnforcers(store, set, c.Messages, enforce.Config{
		Local: c.Local, MaxWaiters: c.MaxWaiters, SettleTTL: c.SettleTTL, Observe: c.Observe,
	})
	if err == nil { // what httplimit has of c, it checks
		_, err = httplimit.New(store, &policy.Set{}, httplimit.Config{Client: c.Client, Fields: c.Fields, RetryJitter: c.RetryJitter})
	}
	if err != nil {
		return nil, fmt.Errorf("weirconnect: %w", err)
	}
	s := &Server{c: c, calls: calls, messages: messages}
	s.pool.New = func() any { return new(call) }
	return s, nil
}
