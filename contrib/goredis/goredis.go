// Package goredis lets package redisstore reach Redis through the client
// github.com/redis/go-redis/v9, which many programs hold already.
//
//	conn := goredis.New(client) // a *redis.Client, *redis.ClusterClient, …
//	store, err := redisstore.New(conn, redisstore.Config{})
//
// By default the client sends a command up to four times when a connection fails,
// although it may have run. What this package sends is marked as not to be sent
// again, whatever the client's MaxRetries says. Only the redirections of a
// cluster, after which a command did not run, are followed.
package goredis

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/floodweir/weir/redisstore"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// A Conn is a redisstore.Conn over a client.
type Conn struct {
	client redis.UniversalClient
	own    bool
}

var _ redisstore.Conn = (*Conn)(nil)

// New makes a Conn of a client that the caller keeps: Close leaves it open. The
// client should have ContextTimeoutEnabled, or its ReadTimeout decides how long
// a dead server is waited for.
func New(client redis.UniversalClient) *Conn { return &Conn{client: client} }

// Options is how Open connects to an address.
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
		// A server of a cloud may announce maintenance; nobody listens here.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if a.Topology == redisstore.Sentinel {
		o.MasterName = a.Primary
		o.SentinelUsername, o.SentinelPassword = a.SentinelUsername, a.SentinelPassword
	}
	return o
}

// Open makes a Conn to the Redis at a URL, as redisstore.ParseURL reads it. It
// connects when it is asked for the first time. An error wraps weir.ErrInvalid.
func Open(url string) (*Conn, error) {
	a, err := redisstore.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return &Conn{client: newClient(a), own: true}, nil
}

func newClient(a redisstore.Address) redis.UniversalClient {
	o := Options(a)
	if a.Topology != redisstore.Cluster {
		return redis.NewUniversalClient(o)
	}
	c := o.Cluster()
	// Keys are declared by position, so that the client need not ask for COMMAND.
	c.DisableRoutingPolicies = true
	return redis.NewClusterClient(c)
}

// Close closes the client if Open made it.
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

// A once is a command that is not sent again after an error.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// Do implements redisstore.Conn.
func (c *Conn) Do(ctx context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
	if len(cmds) == 1 {
		cmd := build(ctx, &cmds[0])
		_ = c.client.Process(ctx, cmd) // the command has the error, too
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
			return redisstore.Reply{Err: fmt.Errorf("goredis: a reply with a %T, want texts and numbers", v)}
		}
	}
	return redisstore.Reply{Items: items}
}
