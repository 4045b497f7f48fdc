package redismodel_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/simulate/redismodel"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/storetest"
)

// A conn runs commands at once.
type conn struct {
	mu     sync.Mutex
	server *redismodel.Server
}

func (c *conn) Cluster() bool { return false }

func (c *conn) Do(_ context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, cmd := range cmds {
		args := append(append(append([]string(nil), cmd.Head...), cmd.Keys...), cmd.Args...)
		items, err := c.server.Do(args)
		var e redismodel.Error
		if errors.As(err, &e) {
			err = redisstore.ServerError(e)
		}
		replies[i] = redisstore.Reply{Items: items, Err: err}
	}
}

// open returns a store on a model whose clock the test sets. With own, the store passes the
// time to the script; otherwise the script reads the clock of the model.
func open(own bool) storetest.Open {
	return func(tb testing.TB) storetest.Harness {
		var now atomic.Int64
		server := redismodel.NewServer(redismodel.NewVM(), now.Load)
		c := redisstore.Config{}
		if own {
			c.Clock = now.Load
		}
		store, err := redisstore.New(&conn{server: server}, c)
		if err != nil {
			tb.Fatal(err)
		}
		return storetest.Harness{Store: store, SetNow: now.Store}
	}
}

// TestConformance runs the suite of every store with the script in the Lua machine.
func TestConformance(t *testing.T) { storetest.Run(t, open(true)) }

// TestServerClock compares the script with the model of stores on the clock of the server and
// with TTLs that end. Calendars are excluded: their windows follow the clock of the process.
func TestServerClock(t *testing.T) {
	storetest.Differential(t, open(false), storetest.DiffConfig{Seed: 1, Decisions: 30_000, Limits: func(c weir.LimitConfig) bool {
		l, err := weir.NewLimit(c)
		return err == nil && l.Period() != 0 && l.Spec().Rule.Horizon() < algo.MaxSpan
	}})
}
