// Package rueidis connects package redisstore to Redis through the client
// github.com/redis/rueidis, which pipelines the commands of several goroutines.
//
//	store, err := weirrueidis.NewStore(client) // a rueidis.Client
//
// Without a client, Open connects to a URL:
//
//	conn, err := weirrueidis.Open("redis://127.0.0.1:6379")
//	…
//	defer conn.Close()
//	store, err := redisstore.New(conn, redisstore.Config{})
//
// The client does not repeat commands of this package after an error, whatever its
// DisableRetry is: they are not marked as retryable. It follows redirections of a
// cluster, after which a command did not run.
package rueidis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/missing"
	"github.com/floodweir/weir/redisstore"
	"github.com/redis/rueidis"
)

// A Conn is a redisstore.Conn over a client.
type Conn struct {
	client rueidis.Client
	own    bool
}

var _ redisstore.Conn = (*Conn)(nil)

// NewStore returns a store with the default configuration over a client. The caller closes
// the store and the client. An error wraps weir.ErrInvalid: the client is nil.
func NewStore(client rueidis.Client) (*redisstore.Store, error) {
	if missing.Value(client) {
		return redisstore.New(nil, redisstore.Config{})
	}
	return redisstore.New(New(client), redisstore.Config{})
}

// New returns a Conn over a client. Close leaves the client open.
func New(client rueidis.Client) *Conn { return &Conn{client: client} }

// Options returns the options with which Open connects to an address. A connection
// without a reply to a command or a ping for two seconds is closed: set ConnWriteTimeout for a
// larger redisstore.Config.Timeout.
func Options(a redisstore.Address) rueidis.ClientOption {
	o := rueidis.ClientOption{
		InitAddress:   a.Hosts,
		Username:      a.Username,
		Password:      a.Password,
		SelectDB:      a.DB,
		TLSConfig:     a.TLS,
		DisableRetry:  true,
		DisableCache:  true, // the cache is not used, and CLIENT TRACKING needs a permission
		ClientSetInfo: rueidis.DisableClientSetInfo,
	}
	// With the client's default of ten seconds, a server that disappears without closing
	// its connections delays the failover to its replica.
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

// Open connects to a URL that redisstore.ParseURL accepts. An error wraps weir.ErrInvalid
// for a bad URL, and weir.ErrUnavailable if Redis does not reply.
func Open(url string) (*Conn, error) {
	a, err := redisstore.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return OpenAddress(a)
}

// OpenAddress connects to an address. An error wraps weir.ErrUnavailable.
func OpenAddress(a redisstore.Address) (*Conn, error) { return OpenOptions(Options(a)) }

// OpenOptions connects with options, such as those of Options with another ConnWriteTimeout. An error
// wraps weir.ErrUnavailable.
func OpenOptions(o rueidis.ClientOption) (*Conn, error) {
	client, err := rueidis.NewClient(o)
	if err != nil {
		return nil, fmt.Errorf("rueidis: connect to %v: %w: %w", o.InitAddress, weir.ErrUnavailable, err)
	}
	return &Conn{client: client, own: true}, nil
}

// Close closes the client if Open created it. It never fails.
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

var errReply = errors.New("rueidis: reply: got neither text nor number")

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
