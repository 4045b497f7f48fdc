// Package rueidis lets package redisstore reach Redis through the client
// github.com/redis/rueidis, which pipelines what several goroutines ask.
//
//	conn, err := rueidis.Open("redis://127.0.0.1:6379")
//	…
//	defer conn.Close()
//	store, err := redisstore.New(conn, redisstore.Config{})
//
// A command is never sent twice by the client's own decision: what this package
// sends is not marked as retryable, whatever the client's DisableRetry says. Only
// the redirections of a cluster, after which a command did not run, are followed.
package rueidis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/redisstore"
	"github.com/redis/rueidis"
)

// A Conn is a redisstore.Conn over a client.
type Conn struct {
	client rueidis.Client
	own    bool
}

var _ redisstore.Conn = (*Conn)(nil)

// New makes a Conn of a client that the caller keeps: Close leaves it open.
func New(client rueidis.Client) *Conn { return &Conn{client: client} }

// Options is how Open connects to an address. A connection on which a command or a
// ping is not answered for two seconds is given up, whatever redisstore.Config.Timeout
// says.
func Options(a redisstore.Address) rueidis.ClientOption {
	o := rueidis.ClientOption{
		InitAddress:   a.Hosts,
		Username:      a.Username,
		Password:      a.Password,
		SelectDB:      a.DB,
		TLSConfig:     a.TLS,
		DisableRetry:  true,
		DisableCache:  true, // nothing is cached, and CLIENT TRACKING would need a permission
		ClientSetInfo: rueidis.DisableClientSetInfo,
	}
	// In the ten seconds that the client would take, a server that is gone without a
	// word keeps the one in its place from being asked.
	o.ConnWriteTimeout = 2 * time.Second
	switch a.Topology {
	case redisstore.Sentinel:
		o.Sentinel = rueidis.SentinelOption{
			MasterSet: a.Primary,
			Username:  a.SentinelUsername,
			Password:  a.SentinelPassword,
			TLSConfig: a.TLS,
		}
	case redisstore.Standalone:
		o.ForceSingleClient = true
	}
	return o
}

// Open connects to the Redis at a URL, as redisstore.ParseURL reads it. An error
// wraps weir.ErrInvalid if the URL is at fault, and weir.ErrUnavailable if Redis
// does not answer.
func Open(url string) (*Conn, error) {
	a, err := redisstore.ParseURL(url)
	if err != nil {
		return nil, err
	}
	client, err := rueidis.NewClient(Options(a))
	if err != nil {
		return nil, fmt.Errorf("rueidis: connect to %v: %w: %w", a.Hosts, weir.ErrUnavailable, err)
	}
	return &Conn{client: client, own: true}, nil
}

// Close closes the client if Open made it. It never fails.
func (c *Conn) Close() error {
	if c.own {
		c.client.Close()
	}
	return nil
}

// Cluster implements redisstore.Conn.
func (c *Conn) Cluster() bool { return c.client.Mode() == rueidis.ClientModeCluster }

// Do implements redisstore.Conn.
func (c *Conn) Do(ctx context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
	if len(cmds) == 1 {
		replies[0] = reply(c.client.Do(ctx, c.build(&cmds[0])))
		return
	}
	multi := make([]rueidis.Completed, len(cmds))
	for i := range cmds {
		multi[i] = c.build(&cmds[i])
	}
	for i, r := range c.client.DoMulti(ctx, multi...) {
		replies[i] = reply(r)
	}
}

func (c *Conn) build(cmd *redisstore.Command) rueidis.Completed {
	return c.client.B().Arbitrary(cmd.Head...).Keys(cmd.Keys...).Args(cmd.Args...).Build()
}

func reply(r rueidis.RedisResult) redisstore.Reply {
	m, err := r.ToMessage()
	if err != nil {
		if re, ok := rueidis.IsRedisErr(err); ok {
			return redisstore.Reply{Err: redisstore.ServerError(re.Error())}
		}
		return redisstore.Reply{Err: err}
	}
	if !m.IsArray() {
		item, err := text(&m)
		return redisstore.Reply{Items: []string{item}, Err: err}
	}
	ms, err := m.ToArray()
	if err != nil {
		return redisstore.Reply{Err: err}
	}
	items := make([]string, len(ms))
	for i := range ms {
		if items[i], err = text(&ms[i]); err != nil {
			return redisstore.Reply{Err: err}
		}
	}
	return redisstore.Reply{Items: items}
}

var errReply = errors.New("rueidis: a reply that is neither text nor number")

func text(m *rueidis.RedisMessage) (string, error) {
	switch {
	case m.IsInt64():
		n, err := m.ToInt64()
		return strconv.FormatInt(n, 10), err
	case m.IsNil(), m.IsArray():
		return "", errReply
	}
	s, err := m.ToString()
	if err != nil {
		return "", fmt.Errorf("%w: %w", errReply, err)
	}
	return s, nil
}
