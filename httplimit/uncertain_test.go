package httplimit_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

// reserving are policies whose requests have a reservation until their response.
func reserving() []policy.Config {
	return []policy.Config{
		{Name: "slots", Limits: limits("2 concurrency lease 1h")},
		{Name: "tokens", Limits: limits("2/24h"), Count: policy.CountFailures},
	}
}

// TestLateGrantsGoBack checks that a reservation without a response in time is given back at
// the end of the request.
func TestLateGrantsGoBack(t *testing.T) {
	for _, mode := range []policy.FailMode{policy.Open, policy.Closed} {
		for _, p := range reserving() {
			p.OnStoreError = mode
			memory := fakestore.Memory(t)
			granted := 0
			store := fakestore.Store{One: func(ctx context.Context, r weir.Request) (weir.Decision, error) {
				d, err := memory.Do(ctx, r)
				if r.Verb == weir.Reserve && err == nil && d.OK {
					granted++
					return weir.Decision{}, weir.ErrUnavailable
				}
				return d, err
			}}
			h := wrap(t, store, set(t, p), httplimit.Config{})
			for range 6 {
				get(h, "/", peer)
			}
			if granted != 6 {
				t.Errorf("%s, %s: %d of 6 requests were granted what those before gave back", p.Name, mode, granted)
			}
			if got := charged(t, memory, p.Name, p.Limits[0].String()); got != 0 {
				t.Errorf("%s, %s: %d are still held, want none", p.Name, mode, got)
			}
		}
	}
}

// TestCanceledWhileReserving checks that a client that disconnects during a reservation is not
// served and holds nothing, even if the store grants it later.
func TestCanceledWhileReserving(t *testing.T) {
	for _, takes := range []time.Duration{10 * time.Millisecond, time.Hour} {
		for _, p := range reserving() {
			synctest.Test(t, func(t *testing.T) {
				memory := bubbled(t)
				defer memory.Close()
				store := fakestore.Store{One: func(ctx context.Context, r weir.Request) (weir.Decision, error) {
					if r.Verb == weir.Reserve {
						granted := time.After(takes)
						select {
						case <-granted:
						case <-ctx.Done(): // but what was asked is under way
							go func() {
								<-granted
								_, _ = memory.Do(context.Background(), r)
							}()
							return weir.Decision{}, context.Cause(ctx)
						}
					}
					return memory.Do(ctx, r)
				}}
				var events []enforce.Event
				c := httplimit.Config{Observe: func(_ *http.Request, e enforce.Event) { events = append(events, e) }}
				served := 0
				h := serving(t, store, set(t, p), c, func(http.ResponseWriter, *http.Request) { served++ })
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				r := httptest.NewRequest("GET", "/", nil).WithContext(ctx)
				r.RemoteAddr = peer
				start := time.Now()
				h.ServeHTTP(httptest.NewRecorder(), r)
				if served != 0 || time.Since(start) > 1100*time.Millisecond {
					t.Errorf("%s: served %d after %v, want 0 within 1.1s", p.Name, served, time.Since(start))
				}
				if len(events) != 1 || events[0].Outcome != enforce.FailedClosed || !errors.Is(events[0].Err, context.DeadlineExceeded) {
					t.Errorf("%s: events %+v, want failed_closed as its context ended", p.Name, events)
				}
				after(20 * time.Millisecond)
				if got := charged(t, memory, p.Name, p.Limits[0].String()); got != 0 {
					t.Errorf("%s: %d are still held, want none", p.Name, got)
				}
				after(takes)
			})
		}
	}
}
