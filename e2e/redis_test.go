package e2e_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/contrib/goredis"
	"github.com/floodweir/weir/contrib/rueidis"
	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/storetest"
)

// redisConns are the clients of the contrib modules, each from a URL.
var redisConns = map[string]func(url string) (redisConn, error){
	"rueidis": func(url string) (redisConn, error) { return rueidis.Open(url) },
	"goredis": func(url string) (redisConn, error) { return goredis.Open(url) },
}

type redisConn interface {
	redisstore.Conn
	Close() error
}

// openConn connects until the end of the test.
func openConn(tb testing.TB, client, url string) redisConn {
	tb.Helper()
	conn, err := redisConns[client](url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	return conn
}

// patient is a timeout that a busy machine does not exceed.
const patient = 20 * time.Second

func newRedisStore(tb testing.TB, conn redisstore.Conn, c redisstore.Config) *redisstore.Store {
	tb.Helper()
	if c.Timeout == 0 {
		c.Timeout = patient
	}
	s, err := redisstore.New(conn, c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

var redisPrefixes atomic.Int64

// openRedis makes stores for package storetest, each with its own keys and a clock that the
// test sets.
func openRedis(conn redisstore.Conn) storetest.Open {
	return func(tb testing.TB) storetest.Harness {
		var now atomic.Int64
		store := newRedisStore(tb, conn, redisstore.Config{
			Prefix: fmt.Sprint("t", redisPrefixes.Add(1)),
			Clock:  now.Load,
			Skew:   time.Hour, // the clock of the test does not advance with real time
		})
		return storetest.Harness{Store: store, SetNow: now.Store}
	}
}
