package weirconnect

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/rpclimit"
)

// Config configures a Server.
type Config = rpclimit.ServerConfig

// A Server limits incoming calls. It is a connect.Interceptor for handlers; in a client it
// does nothing.
type Server struct {
	c        Config
	calls    *enforce.Enforcer
	messages *enforce.Enforcer // nil without Config.Messages
	pool     sync.Pool         // of *call
}

// New returns a Server that applies the policies of set with store. An error wraps
// weir.ErrInvalid.
func New(store weir.Store, set *policy.Set, c Config) (*Server, error) {
	calls, messages, err := rpclimit.NewEnforcers(store, set, c)
	if err != nil {
		return nil, fmt.Errorf("weirconnect: %w", err)
	}
	s := &Server{c: c, calls: calls, messages: messages}
	s.pool.New = func() any { return new(call) }
	return s, nil
}

// SetPolicies replaces the policies of calls while s serves; those of messages stay. Keys carry
// their state over, and calls that wait are decided by the new policies. After an error, which
// wraps weir.ErrInvalid, the policies before stay.
func (s *Server) SetPolicies(set *policy.Set) error {
	if err := rpclimit.SetPolicies(s.calls, set); err != nil {
		return fmt.Errorf("weirconnect: %w", err)
	}
	return nil
}

// Limit returns a Server that limits the calls of each key:
//
//	limits := weirconnect.Limit(store, "10/s burst 20", weirconnect.ByIP)
//	mux.Handle(shopconnect.NewOrdersHandler(orders, connect.WithInterceptors(limits)))
//
// Key may read what an authentication middleware in front has put into the context. Calls with
// an empty key share one bucket. It is short for New with one policy, called "limit", and the
// default Config. It panics if store is nil or the limit is invalid.
func Limit(store weir.Store, limit string, key func(ctx context.Context, procedure string) string) *Server {
	return mustNew(store, enforce.OneLimit(limit, KeyFunc(key)), Config{})
}

// LimitFunc returns a Server with a limit for each key from code, such as the limit of a tenant
// from a database. It may change at any time; keys keep their state. Return a default limit for
// unknown keys: calls without a limit, and with an error, are admitted.
func LimitFunc(store weir.Store, limit weir.LimitFunc, key func(ctx context.Context, procedure string) string) *Server {
	return mustNew(store, enforce.OneLimit("1/s", KeyFunc(key)), Config{Options: enforce.Options{LimitFunc: limit}})
}

func mustNew(store weir.Store, set *policy.Set, c Config) *Server {
	s, err := New(store, set, c)
	if err != nil {
		panic(err)
	}
	return s
}

// KeyFunc returns a part of a policy's key that key computes from the context and the procedure
// of a call. Calls with an empty text share one bucket.
func KeyFunc(key func(ctx context.Context, procedure string) string) policy.KeyPart {
	return enforce.KeyFunc(func(a *attributes) string {
		return key(context.WithValue(a.ctx, peerKey{}, a.peer.Addr), a.procedure)
	})
}

// peerKey is the key of the peer's address in the context of a key function. The context of a
// streaming call has no connect.CallInfo.
type peerKey struct{}

// ByIP is a key function that returns the address of the peer, of IPv6 its first 64 bits.
func ByIP(ctx context.Context, _ string) string {
	addr, _ := ctx.Value(peerKey{}).(string)
	return httplimit.ByIP(&http.Request{RemoteAddr: addr})
}
