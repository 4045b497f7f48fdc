// Package goredis connects package redisstore to Redis through the client
// github.com/redis/go-redis/v9.
//
//	store, err := weirgoredis.NewStore(client) // a *redis.Client, *redis.ClusterClient, …
//
// Without a client, Open connects to a URL:
//
//	conn, err := weirgoredis.Open("redis://127.0.0.1:6379")
//	…
//	defer conn.Close()
//	store, err := redisstore.New(conn, redisstore.Config{})
//
// By default the client sends a command up to four times if a connection fails, although
// the command may have run. Commands of this package disable that, whatever the client's
// MaxRetries is. The client follows redirections of a cluster, after which a command did
// not run.
package goredis

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/floodweir/weir/internal/missing"
	"github.com/floodweir/weir/redisstore"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// A Conn is a redisstore.Conn over a client.
type Conn struct {
	client redis.UniversalClient
	own    bool
}

var _ redisstore.Conn = (*Conn)(nil)

// NewStore returns a store with the default configuration over a client. The caller closes
// the store and the client. Set ContextTimeoutEnabled in the client's options; otherwise
// its ReadTimeout, not the context, bounds the wait for a dead server. An error wraps
// weir.ErrInvalid: the client is nil.
func NewStore(client redis.UniversalClient) (*redisstore.Store, error) {
	if missing.Value(client) {
		return redisstore.New(nil, redisstore.Config{})
	}
	return redisstore.New(New(client), redisstore.Config{})
}

// New returns a Conn over a client. Close leaves the client open. See NewStore for the
// client's options.
func New(client redis.UniversalClient) *Conn { return &Conn{client: client} }

// Options returns the options with which Open connects to an address.
func Options(a redisstore.Address) *redis.UniversalOptions {
	o := &redis.UniversalOptions{
		Addrs:                 a.Hosts,
		Username:              a.Username,
		Password:              a.Password,
		DB:                    a.DB,
		TLSConfig:             a.TLS,
		MaxRetries:            -1,
		DialerRetries:         1,
		ContextTimeoutEnabled: true,
		DisableIdentity:       true,
		IsClusterMode:         a.Topology == redisstore.Cluster,
		// Maintenance notifications of cloud servers are not used.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if a.Topology == redisstore.Sentinel {
		o.MasterName = a.Primary
		o.SentinelUsername, o.SentinelPassword = a.SentinelUsername, a.SentinelPassword
	}
	return o
}

// Open returns a Conn to a URL that redisstore.ParseURL accepts. It connects at the first
// command. Open disables the log of go-redis, which is one for the process and goes to standard
// error: each failure in it is also an error of a command. A program that wants it calls
// redis.SetLogger after Open. An error wraps weir.ErrInvalid.
func Open(url string) (*Conn, error) {
	a, err := redisstore.ParseURL(url)
	if err != nil {
		return nil, err
	}
	logging.Disable() // safe for concurrent use
	return &Conn{client: newClient(a), own: true}, nil
}

func newClient(a redisstore.Address) redis.UniversalClient {
	o := Options(a)
	if a.Topology != redisstore.Cluster {
		return redis.NewUniversalClient(o)
	}
	c := o.Cluster()
	// Keys are declared by position, so the client need not send COMMAND.
	c.DisableRoutingPolicies = true
	return redis.NewClusterClient(c)
}

// Close closes the client if Open created it.
func (c *Conn) Close() error {
	if !c.own {
		return nil
	}
	if err := c.client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		return fmt.Errorf("goredis: close: %w", err)
	}
	return nil
}

// Cluster implements redisstore.Conn.
func (c *Conn) Cluster() bool {
	_, ok := c.client.(*redis.ClusterClient)
	return ok
}

// A once is a command that the client sends only once.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// Do implements redisstore.Conn.
func (c *Conn) Do(ctx context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
	if len(cmds) == 1 {
		cmd := build(ctx, &cmds[0])
		_ = c.client.Process(ctx, cmd) // cmd has the error
		replies[0] = reply(cmd)
		return
	}
	pipe := c.client.Pipeline()
	sent := make([]once, len(cmds))
	for i := range cmds {
		sent[i] = build(ctx, &cmds[i])
		_ = pipe.Process(ctx, sent[i])
	}
	_, _ = pipe.Exec(ctx) // every command has its own error
	for i := range sent {
		replies[i] = reply(sent[i])
	}
}

func build(ctx context.Context, cmd *redisstore.Command) once {
	args := make([]any, 0, len(cmd.Head)+len(cmd.Keys)+len(cmd.Args))
	for _, part := range [...][]string{cmd.Head, cmd.Keys, cmd.Args} {
		for _, a := range part {
			args = append(args, a)
		}
	}
	return once{redis.NewCmd(ctx, args...)}
}

func reply(cmd once) redisstore.Reply {
	v, err := cmd.Result()
	if err != nil {
		var re redis.Error
		if errors.As(err, &re) && !errors.Is(err, redis.Nil) {
			return redisstore.Reply{Err: redisstore.ServerError(re.Error())}
		}
		return redisstore.Reply{Err: err}
	}
	vs, ok := v.([]any)
	if !ok {
		vs = []any{v}
	}
	items := make([]string, len(vs))
	for i, v := range vs {
		switch v := v.(type) {
		case string:
			items[i] = v
		case int64:
			items[i] = strconv.FormatInt(v, 10)
		default:
			return redisstore.Reply{Err: fmt.Errorf("goredis: reply: got %T, want text or number", v)}
		}
	}
	return redisstore.Reply{Items: items}
}
