package backoff_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/backoff"
)

// A budget admits from the time at on.
type budget struct {
	at       time.Time
	returned int
}

func (b *budget) Do(context.Context, weir.Verb) (weir.Decision, error) {
	left := time.Until(b.at)
	return weir.Decision{OK: left <= 0, RetryAfter: max(0, left)}, nil
}

func (b *budget) Return(context.Context, time.Time) { b.returned++ }

// TestPauseOfOneScope checks that a pause of one scope does not hold back the requests of
// another scope that wait behind it for the same key.
func TestPauseOfOneScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := &backoff.Pacer{}
		p.Queue.Max, p.Pauses.MaxKeys, p.Pauses.MaxPause = 10, 10, 24*time.Hour
		admitted := map[string]chan time.Duration{"a": make(chan time.Duration, 1), "b": make(chan time.Duration, 1)}
		for _, scope := range []string{"a", "b"} {
			go func() {
				r, err := p.Admit(t.Context(), backoff.Request{Key: "k", Scope: scope, Budget: &budget{at: start.Add(time.Second)}})
				if err != nil || !r.Decision.OK {
					t.Errorf("%s: Admit = %+v, %v", scope, r, err)
				}
				admitted[scope] <- time.Since(start)
			}()
			synctest.Wait()
		}
		p.Pauses.Set("a", time.Hour)
		if at := <-admitted["b"]; at != time.Second {
			t.Errorf("b was admitted after %v, want 1s", at)
		}
		if at := <-admitted["a"]; at != time.Hour {
			t.Errorf("a was admitted after %v, want 1h", at)
		}
	})
}

// TestPauseAfterTake checks that a token is returned if a pause begins while it is taken,
// and lasts too long.
func TestPauseAfterTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &backoff.Pacer{}
		p.Queue.Max, p.Pauses.MaxKeys, p.Pauses.MaxPause = 10, 10, 24*time.Hour
		b := &pausing{p: p}
		r, err := p.Admit(t.Context(), backoff.Request{Key: "k", Scope: "s", Budget: b, Wait: p.Deadline(time.Minute)})
		if err != nil || r.Decision.OK || !r.Paused || r.Decision.RetryAfter != time.Hour || b.returned != 1 {
			t.Errorf("Admit = %+v, %v with %d tokens returned, want a pause of 1h and 1", r, err, b.returned)
		}
	})
}

// A pausing budget admits while the server asks for a pause.
type pausing struct {
	budget
	p *backoff.Pacer
}

func (b *pausing) Do(context.Context, weir.Verb) (weir.Decision, error) {
	b.p.Pauses.Set("s", time.Hour)
	return weir.Decision{OK: true}, nil
}
