package redisstore_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/internal/roundtrip"
	"github.com/floodweir/weir/redisstore"
)

// reports is a context that records the progress of a request.
type reports struct {
	context.Context
	mu  sync.Mutex
	all []string
}

func (r *reports) Value(key any) any {
	if key == roundtrip.Key {
		return r
	}
	return r.Context.Value(key)
}

func (r *reports) add(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, what)
}

func (r *reports) Queued()  { r.add("queued") }
func (r *reports) Sent()    { r.add("sent") }
func (r *reports) Replied() { r.add("replied") }

// TestProgress checks what a store reports of a request: when it is sent, not when it is
// queued, and its reply, also after its caller has left. An error reply is no reply.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reply := grant
		conn := &fakeConn{do: func(_ context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
			time.Sleep(10 * time.Millisecond)
			for i := range cmds {
				replies[i] = reply(cmds[i])
			}
		}}
		s := newStore(t, conn, redisstore.Config{InFlight: 1})
		first, second := &reports{Context: t.Context()}, &reports{Context: t.Context()}
		leaves, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		first.Context = leaves
		go s.Do(first, take("a", 1))
		synctest.Wait()
		go s.Do(second, take("b", 1))
		time.Sleep(8 * time.Millisecond)
		for _, r := range []*reports{first, second} {
			r.mu.Lock()
		}
		if !slices.Equal(first.all, []string{"queued", "sent"}) || !slices.Equal(second.all, []string{"queued"}) {
			t.Errorf("during the round trip: %q and %q", first.all, second.all)
		}
		for _, r := range []*reports{first, second} {
			r.mu.Unlock()
		}
		s.Close()
		want := []string{"queued", "sent", "replied"}
		if !slices.Equal(first.all, want) || !slices.Equal(second.all, want) {
			t.Errorf("at the end: %q and %q, want %q", first.all, second.all, want)
		}
		reply = func(redisstore.Command) redisstore.Reply {
			return fails(redisstore.ServerError("LOADING Redis is loading the dataset in memory"))
		}
		s = newStore(t, conn, redisstore.Config{})
		third := &reports{Context: t.Context()}
		s.Do(third, take("a", 1))
		if !slices.Equal(third.all, want[:2]) {
			t.Errorf("after an error: %q, want %q", third.all, want[:2])
		}
	})
}
