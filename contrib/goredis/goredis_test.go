package goredis_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/floodweir/weir/contrib/goredis"
	"github.com/floodweir/weir/redisstore"
	"github.com/redis/go-redis/v9"
)

// lines is a logger of go-redis.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Printf(_ context.Context, format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, fmt.Sprintf(format, v...))
}

// refuse returns an address that refuses connections.
func refuse(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestNoLog checks that the client of Open does not log, which go-redis does on standard error,
// and that a program can still set a logger.
func TestNoLog(t *testing.T) {
	fail := func(conn redisstore.Conn) {
		t.Helper()
		var reply [1]redisstore.Reply
		conn.Do(t.Context(), []redisstore.Command{{Head: []string{"PING"}}}, reply[:])
		if reply[0].Err == nil || !strings.Contains(reply[0].Err.Error(), "refused") {
			t.Errorf("PING = %+v, want a refused connection", reply[0])
		}
	}
	var before, after lines
	redis.SetLogger(&before)
	conn, err := goredis.Open("redis://" + refuse(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fail(conn)
	if len(before.all) > 0 {
		t.Errorf("logged %q", before.all)
	}
	again, err := goredis.Open("redis://" + refuse(t))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	redis.SetLogger(&after)
	fail(again)
	if len(after.all) == 0 {
		t.Error("nothing logged after SetLogger: the test proves nothing")
	}
}
