package plainhttp

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestWatch checks that a request is watched from the given time, also if the timer of an earlier
// request runs, and that none is when a connection is idle.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const after = 20 * time.Millisecond
		client, server := net.Pipe()
		defer server.Close()
		var w watch
		w.init(server, after, time.Now())
		request := func() *requestContext { return &requestContext{Context: context.Background()} }
		first, second := request(), request()
		w.begin(first)
		time.Sleep(after / 2)
		if w.end() {
			t.Error("end() = true for a request that was not watched")
		}
		w.begin(second)
		client.Close()
		time.Sleep(after - 1)
		synctest.Wait()
		if second.Err() != nil {
			t.Error("a request was watched too early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if second.Err() == nil || first.Err() != nil {
			t.Errorf("contexts ended with %v and %v, want only the second", first.Err(), second.Err())
		}
		if !w.end() {
			t.Error("end() = false after a change of the deadline")
		}
		w.begin(request())
		w.end()
		time.Sleep(2 * after)
		synctest.Wait()
		if w.set {
			t.Error("the timer runs without a request")
		}
		w.close()
	})
}
