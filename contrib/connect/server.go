package weirconnect

import (
	"fmt"
	"sync"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/rpclimit"
)

// Config configures a Server.
type Config = rpclimit.ServerConfig

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
	calls, messages, err := rpclimit.NewEnforcers(store, set, c)
	if err != nil {
		return nil, fmt.Errorf("weirconnect: %w", err)
	}
	s := &Server{c: c, calls: calls, messages: messages}
	s.pool.New = func() any { return new(call) }
	return s, nil
}
