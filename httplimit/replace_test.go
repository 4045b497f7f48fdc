package httplimit_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

// TestReplace checks that waiting requests are decided by the new policies after Replace.
func TestReplace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbled(t)
		defer store.Close()
		before := set(t, waiting("p", time.Minute, "10/s burst 50"))
		first, err := httplimit.New(store, before, httplimit.Config{})
		if err != nil {
			t.Fatal(err)
		}
		second, err := httplimit.New(store, set(t, waiting("p", time.Minute, "11/s burst 50")).WithPrevious(before), httplimit.Config{})
		if err != nil {
			t.Fatal(err)
		}
		var passed atomic.Int64
		var all sync.WaitGroup
		call := func(m *httplimit.Middleware) {
			h := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed.Add(1) }))
			all.Go(func() {
				if w := get(h, "/", peer); w.Code != http.StatusOK || w.Header().Get("RateLimit") == "" {
					t.Errorf("%d with %v, want 200 and a RateLimit", w.Code, w.Header())
				}
			})
		}
		for range 150 {
			call(first)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		first.Replace(second)
		second.Replace(nil)
		call(second)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := passed.Load(); got < 69 || got > 72 {
			t.Errorf("%d pass in two seconds, want 60 and 11 at most", got)
		}
		all.Wait()
	})
}

// TestSetPolicies checks that existing handlers decide by the new policies with the state of the
// keys. After an error the policies stay. The settings of the Config stay in any case.
func TestSetPolicies(t *testing.T) {
	m, err := httplimit.New(fakestore.Memory(t), new(policy.Set), httplimit.Config{ExemptPreflight: true})
	if err != nil {
		t.Fatal(err)
	}
	h := m.Wrap(hello)
	code := func() int { return get(h, "/", peer).Code }
	api := func(limit string) *policy.Set {
		return set(t, policy.Config{Name: "api", Limits: limits(limit)})
	}
	for _, c := range []struct {
		set   *policy.Set
		codes []int
	}{
		{api("2/h"), []int{200, 200, 429}},
		{api("4/2h"), []int{200, 200, 429}}, // another name of the state
		{api("2/h"), []int{429}},
		{new(policy.Set), []int{200}},
	} {
		if err := m.SetPolicies(c.set); err != nil {
			t.Fatal(err)
		}
		if err := m.SetPolicies(nil); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("SetPolicies(nil) = %v, want ErrInvalid", err)
		}
		for i, want := range c.codes {
			if got := code(); got != want {
				t.Errorf("%v: request %d = %d, want %d", c.set.Policies(), i, got, want)
			}
		}
		r := httptest.NewRequest(http.MethodOptions, "/", nil)
		r.Header.Set("Origin", "https://shop.example")
		r.Header.Set("Access-Control-Request-Method", "POST")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Errorf("preflight = %d, want 200", w.Code)
		}
	}
}

// TestSetPoliciesAdjusted checks that adjustments apply to later requests and to those that wait.
func TestSetPoliciesAdjusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbled(t)
		defer store.Close()
		s := set(t, waiting("p", time.Minute, "1/m"))
		m, err := httplimit.New(store, s, httplimit.Config{})
		if err != nil {
			t.Fatal(err)
		}
		h := m.Wrap(hello)
		is := func(step string, want int) {
			t.Helper()
			if w := get(h, "/", peer); w.Code != want {
				t.Errorf("%s: %d, want %d", step, w.Code, want)
			}
		}
		is("first", http.StatusOK)
		var waited sync.WaitGroup
		waited.Go(func() { is("waits through the freeze", http.StatusTooManyRequests) })
		synctest.Wait()
		frozen, err := s.WithAdjustments([]policy.Adjustment{{Policy: "p", Key: []string{"203.0.113.7"}, Block: true}})
		if err == nil {
			err = m.SetPolicies(frozen)
		}
		if err != nil {
			t.Fatal(err)
		}
		is("frozen", http.StatusTooManyRequests)
		if w := get(h, "/", "198.51.100.7:1"); w.Code != http.StatusOK {
			t.Errorf("another key: %d, want 200", w.Code)
		}
		waited.Wait()
		if err := m.SetPolicies(s); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		is("lifted", http.StatusOK)
	})
}
