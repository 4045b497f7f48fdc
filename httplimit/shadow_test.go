package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

// TestCandidate checks that a candidate decides every request under its own name and keys, and
// that other shadow policies decide only admitted ones.
func TestCandidate(t *testing.T) {
	c := httplimit.Config{}
	events := observed(&c)
	h := wrap(t, fakestore.Memory(t), set(t,
		policy.Config{Name: "p", Limits: limits("1/h"), Candidate: limits("2/h")},
		policy.Config{Name: "s", Mode: policy.Shadow, Limits: limits("1/h")},
	), c)
	for step, want := range []struct {
		status int
		events []string
	}{
		{200, []string{"p admitted", "p~candidate admitted shadow", "s admitted shadow"}},
		{429, []string{"p denied", "p~candidate admitted shadow"}},
		{429, []string{"p denied", "p~candidate denied shadow"}},
	} {
		w, got := get(h, "/", peer), events()
		if w.Code != want.status || !slices.Equal(got, want.events) {
			t.Errorf("step %d: %d %q, want %d %q", step, w.Code, got, want.status, want.events)
		}
	}
}

// TestCandidateOfWhatFails checks that a candidate decides requests for which the store made no
// decision.
func TestCandidateOfWhatFails(t *testing.T) {
	for mode, want := range map[policy.FailMode]int{policy.Open: 200, policy.Closed: 503} {
		store, down := fakestore.Memory(t), true
		failing := fakestore.Store{One: func(ctx context.Context, r weir.Request) (weir.Decision, error) {
			if down = !down; !down {
				return weir.Decision{}, weir.ErrUnavailable
			}
			return store.Do(ctx, r)
		}}
		c := httplimit.Config{}
		events := observed(&c)
		h := wrap(t, failing, set(t, policy.Config{Name: "p", Limits: limits("1/h"), Candidate: limits("2/h"), OnStoreError: mode}), c)
		w, got := get(h, "/", peer), events()
		if w.Code != want || !slices.Equal(got, []string{fmt.Sprint("p failed_", mode, " error"), "p~candidate admitted shadow"}) {
			t.Errorf("%s: %d %q, want %d and the candidate's decision", mode, w.Code, got, want)
		}
	}
}

// TestCandidateWithoutAResponse checks that a candidate that counts by the response counts a
// denied request, which has none.
func TestCandidateWithoutAResponse(t *testing.T) {
	store := fakestore.Memory(t)
	p := policy.Config{Name: "p", Limits: limits("1/h"), Candidate: limits("9/h"), Count: policy.CountFailures}
	h := serving(t, store, set(t, p), httplimit.Config{}, status)
	for step, want := range []struct {
		path    string
		status  int
		charged int64
	}{{"/200", 200, 0}, {"/500", 500, 1}, {"/200", 429, 2}, {"/200", 429, 3}} {
		w := get(h, want.path, peer)
		if got := charged(t, store, "p~candidate", "9/h"); w.Code != want.status || got != want.charged {
			t.Errorf("step %d: %d and the candidate has charged %d, want %d and %d", step, w.Code, got, want.status, want.charged)
		}
	}
}

// TestCandidateSlots checks that a candidate holds a slot while the handler runs, and none for
// a denied request.
func TestCandidateSlots(t *testing.T) {
	store := fakestore.Memory(t)
	p := policy.Config{Name: "p", Limits: limits("1 concurrency"), Candidate: limits("2 concurrency")}
	var h http.Handler
	depth := 0
	c := httplimit.Config{}
	events := observed(&c)
	h = serving(t, store, set(t, p), c, func(http.ResponseWriter, *http.Request) {
		if depth++; depth == 1 {
			for range 3 {
				get(h, "/", peer)
			}
		}
	})
	get(h, "/", peer)
	want := []string{"p admitted", "p~candidate admitted shadow"}
	for range 3 {
		want = append(want, "p denied", "p~candidate admitted shadow")
	}
	if got := events(); !slices.Equal(got, want) {
		t.Errorf("events = %q, want %q", got, want)
	}
	if got := charged(t, store, "p~candidate", "2 concurrency"); got != 0 {
		t.Errorf("the candidate still holds %d slots, want none", got)
	}
}

// costly is an expression with the same result for every request.
type costly struct {
	n   int64
	err error
}

func (c costly) Eval(policy.Attributes) (int64, error) { return c.n, c.err }
func (c costly) String() string                        { return "costly" }

// TestEventCost checks the cost in an event, and the fault if it cannot be computed.
func TestEventCost(t *testing.T) {
	fault := errors.New("no such header")
	var events []enforce.Event
	h := wrap(t, fakestore.Memory(t), set(t,
		policy.Config{Name: "measured", Limits: limits("10/h"), CostOf: costly{n: 4}},
		policy.Config{Name: "not", Limits: limits("10/h"), Cost: 2, CostOf: costly{err: fault}},
		policy.Config{Name: "nothing", Limits: limits("10/h"), CostOf: costly{}},
	), httplimit.Config{Observe: func(_ *http.Request, e enforce.Event) { events = append(events, e) }})
	w := get(h, "/", peer)
	if got, want := w.Header().Get("RateLimit"), `"measured";r=6;t=1440, "not";r=8;t=720, "nothing";r=10;t=0`; w.Code != 200 || got != want {
		t.Errorf("%d %s, want 200 %s", w.Code, got, want)
	}
	for i, want := range []struct {
		cost  int64
		fault error
	}{{4, nil}, {2, fault}, {0, nil}} {
		if e := events[i]; e.Cost != want.cost || !errors.Is(e.Fault, want.fault) || e.Err != nil || e.Outcome != enforce.Admitted {
			t.Errorf("event %d = %+v, want admitted at %d with fault %v", i, e, want.cost, want.fault)
		}
	}
}

// TestCostOfNothing checks that a cost of 0 is not reserved, and is charged by the response.
func TestCostOfNothing(t *testing.T) {
	store, settled := fakestore.Memory(t), 0
	counted := fakestore.Store{All: store.DoAll, One: func(ctx context.Context, r weir.Request) (weir.Decision, error) {
		settled++
		return store.Do(ctx, r)
	}}
	h := serving(t, counted, set(t,
		policy.Config{Name: "s", Limits: limits(ample), CostOf: costly{}, Settle: policy.Settle{Header: "X-Cost"}},
		policy.Config{Name: "f", Limits: limits(ample), CostOf: costly{}, Count: policy.CountSuccesses},
		policy.Config{Name: "c", Limits: limits("1 concurrency"), CostOf: costly{}},
	), httplimit.Config{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Cost", "5")
		status(w, r)
	})
	if w := get(h, "/200", peer); w.Code != 200 {
		t.Fatalf("%d, want 200", w.Code)
	}
	if settled != 1 {
		t.Errorf("the store is asked %d times after the answer, want once", settled)
	}
	for name, want := range map[string]int64{"s": 5, "f": 0} {
		if got := charged(t, store, name, ample); got != want {
			t.Errorf("%s is charged %d, want %d", name, got, want)
		}
	}
}
