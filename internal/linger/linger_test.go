package linger_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/internal/linger"
)

// TestDrain checks that a context lasts for Time after its client has disconnected, that writes then
// go nowhere, and that a closed Life makes room for another.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var drains linger.Drains
		begin := func() (context.Context, *linger.Life, context.CancelFunc) {
			client, leave := context.WithCancel(t.Context())
			ctx, l := linger.New(client, true, &drains)
			return ctx, l, leave
		}
		w := httptest.NewRecorder()
		ctx, l, leave := begin()
		if n, err := l.Write(w, []byte("ab")); n != 2 || err != nil || l.Gone() || w.Body.String() != "ab" {
			t.Fatalf("Write = %d, %v, %q", n, err, w.Body)
		}
		leave()
		synctest.Wait()
		if n, err := l.Write(w, []byte("c")); n != 1 || err != nil || !l.Gone() || w.Body.String() != "ab" {
			t.Errorf("Write without a client = %d, %v, %q, want no error and no bytes", n, err, w.Body)
		}
		start := time.Now()
		<-ctx.Done()
		if took := time.Since(start); took != linger.Time || !errors.Is(context.Cause(ctx), context.Canceled) {
			t.Errorf("the context ended after %v with %v, want %v", took, context.Cause(ctx), linger.Time)
		}
		l.Close()

		var all []*linger.Life
		for range linger.Max {
			ctx, l, leave := begin()
			leave()
			synctest.Wait()
			if all = append(all, l); ctx.Err() != nil {
				t.Fatal("a context ended at once")
			}
		}
		last, ll, leave := begin()
		leave()
		if synctest.Wait(); last.Err() == nil || ll.Gone() {
			t.Error("more than Max handlers run on")
		}
		ll.Close()
		for _, l := range all {
			l.Close()
			l.Close()
		}
		next, l, leave := begin()
		leave()
		if synctest.Wait(); next.Err() != nil {
			t.Error("a closed Life still counts")
		}
		l.Close()
	})
}

// TestWriteFails checks that a write that fails starts to drain, or is an error without drain.
func TestWriteFails(t *testing.T) {
	var drains linger.Drains
	for _, drain := range []bool{true, false} {
		ctx, l := linger.New(t.Context(), drain, &drains)
		if n, err := l.Write(broken{}, []byte("a")); (n == 1 && err == nil) != drain || l.Gone() != drain || ctx.Err() != nil {
			t.Errorf("drain %t: Write = %d, %v, gone %t", drain, n, err, l.Gone())
		}
		l.Close()
	}
}

// broken is a ResponseWriter whose client has disconnected.
type broken struct{ http.ResponseWriter }

func (broken) Write([]byte) (int, error) { return 0, net.ErrClosed }

// TestNoDrain checks that a deadline, or a Life without drain, ends the context at once.
func TestNoDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var drains linger.Drains
		for _, drain := range []bool{true, false} {
			client, leave := context.WithTimeout(t.Context(), time.Second)
			ctx, l := linger.New(client, drain, &drains)
			start := time.Now()
			<-ctx.Done()
			if took := time.Since(start); took != time.Second || l.Gone() {
				t.Errorf("drain %t: ended after %v, want the deadline", drain, took)
			}
			l.Close()
			leave()
		}
	})
}
