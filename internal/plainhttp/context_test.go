package plainhttp_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/floodweir/weir/internal/plainhttp"
)

// TestAfterFunc checks that AfterFunc does what that of package context does, for every way in which
// the context of a request ends.
func TestAfterFunc(t *testing.T) {
	for _, alone := range []bool{false, true} {
		t.Run(fmt.Sprintf("alone=%v", alone), func(t *testing.T) {
			var handle func(context.Context)
			handled := make(chan struct{})
			base, end := context.WithCancel(context.Background())
			addr, _ := start(t, func(_ http.ResponseWriter, r *http.Request) {
				handle(r.Context())
				handled <- struct{}{}
			}, alone, func(s *http.Server) { s.BaseContext = func(net.Listener) context.Context { return base } })
			send := func() *net.TCPConn {
				c := dial(t, addr)
				if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				return c
			}
			wait := func(what string, c <-chan struct{}) {
				t.Helper()
				select {
				case <-c:
				case <-time.After(patience):
					t.Fatalf("%s: no call", what)
				}
			}
			called := make(chan struct{}, 4)
			call := func() { called <- struct{}{} }

			handle = func(ctx context.Context) { plainhttp.AfterFunc(ctx, call) }
			send()
			wait("the handler returns", handled)
			wait("the handler returns", called)

			handle = func(ctx context.Context) {
				stop := plainhttp.AfterFunc(ctx, call)
				again := plainhttp.AfterFunc(ctx, call)
				if !stop.Stop() || stop.Stop() {
					t.Error("Stop() = false or again true, want true and then false")
				}
				third := plainhttp.AfterFunc(ctx, func() {})
				if stop.Stop() {
					t.Error("Stop() = true for another function")
				}
				third.Stop()
				_ = again
			}
			send()
			wait("a second function", handled)
			wait("a second function", called)
			if len(called) > 0 {
				t.Error("a stopped function was called")
			}

			started := make(chan struct{})
			handle = func(ctx context.Context) {
				stop := plainhttp.AfterFunc(ctx, call)
				close(started)
				wait("the client disconnects", called)
				if stop.Stop() || ctx.Err() == nil {
					t.Errorf("Stop() = true or Err() = %v after the end", ctx.Err())
				}
			}
			c := send()
			wait("start", started)
			c.Close()
			wait("the client disconnects", handled)

			handle = func(ctx context.Context) {
				stop := plainhttp.AfterFunc(ctx, call)
				end()
				wait("the context of the server ends", called)
				if stop.Stop() {
					t.Error("Stop() = true after the end")
				}
				plainhttp.AfterFunc(ctx, call)
				wait("after the end", called)
			}
			send()
			wait("the context of the server ends", handled)
		})
	}
}
