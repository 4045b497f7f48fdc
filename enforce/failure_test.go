package enforce_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

// failMode returns a policy with an OnStoreError.
func failMode(name string, mode policy.FailMode, limit ...string) policy.Config {
	c := about(name, limit...)
	c.OnStoreError = mode
	return c
}

// TestTook checks that the time of a decision is in one event of its policies.
func TestTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took []time.Duration
		c := enforce.Config{Observe: func(_ context.Context, _ policy.Attributes, e enforce.Event) { took = append(took, e.Took) }}
		slow := fakestore.Around(fakestore.Memory(t), func(context.Context, *weir.Request) error {
			<-time.After(time.Millisecond)
			return nil
		}, nil)
		e := open(t, slow, c, about("a", "9/h"), about("b", "9/h"))
		var p enforce.Admission
		enter(t, e, &p)
		if len(took) != 2 || took[0] < time.Millisecond || took[1] != 0 {
			t.Errorf("events took %v, want the time in the first", took)
		}
	})
}

// TestDefaultMode checks that without OnStoreError and Options.Local the whole limits decide in
// the memory of the process, and that a policy is open only if it says so.
func TestDefaultMode(t *testing.T) {
	e := open(t, fakestore.Failing(weir.ErrUnavailable), enforce.Config{}, about("p", "2/h"))
	var p enforce.Admission
	for i, want := range []enforce.Outcome{enforce.Admitted, enforce.Admitted, enforce.Denied} {
		if got := enter(t, e, &p); got != want || p.Decision().Degraded != policy.Local {
			t.Errorf("request %d: %s, %+v, want %s by mode local", i, got, p.Decision(), want)
		}
	}
}

// TestOverload checks that a request that this process is too busy to decide is refused in
// every mode. Local does not decide it: each node would admit its share of the limit.
func TestOverload(t *testing.T) {
	busy := fmt.Errorf("test: %w", &weir.OverloadError{Reason: "busy", RetryAfter: time.Second})
	for _, mode := range []policy.FailMode{policy.Open, policy.Closed, policy.Local} {
		c, shadow := enforce.Config{Options: enforce.Options{Local: fakestore.Memory(t)}}, failMode("s", mode, "9/h")
		events := observed(&c)
		shadow.Mode = policy.Shadow
		var p enforce.Admission
		if got := enter(t, open(t, fakestore.Failing(busy), c, failMode("p", mode, "9/h")), &p); got != enforce.Overloaded || !errors.Is(p.Err(), weir.ErrOverloaded) {
			t.Errorf("%s: %v, %v, want overloaded and ErrOverloaded", mode, got, p.Err())
		}
		if got := enter(t, open(t, fakestore.Failing(busy), c, shadow), &p); got != enforce.Admitted {
			t.Errorf("%s in shadow: %v, want admitted", mode, got)
		}
		same(t, "events", events(), "ada p overloaded error", "ada s overloaded shadow error")
	}
}

// TestStoreErrors checks OnStoreError for requests that the store does not decide.
func TestStoreErrors(t *testing.T) {
	down, alsoDown := errors.New("down"), errors.New("also down")
	opened, closed, local := failMode("open", policy.Open, "9/h"), failMode("closed", policy.Closed, "9/h"), failMode("local", policy.Local, "1/h")
	for _, tc := range []struct {
		name     string
		policies []policy.Config
		local    weir.Store
		want     []enforce.Outcome // of one request after the other
		events   []string          // of the last
		degraded weir.FailMode     // the last one
		denier   string
	}{
		{"open", []policy.Config{opened}, nil, []enforce.Outcome{enforce.FailedOpen, enforce.FailedOpen}, []string{"ada open failed_open error"}, "", ""},
		{"closed", []policy.Config{closed}, nil, []enforce.Outcome{enforce.FailedClosed}, []string{"ada closed failed_closed error"}, "", ""},
		{"closed beats all", []policy.Config{opened, local, closed}, fakestore.Memory(t), []enforce.Outcome{enforce.FailedClosed},
			[]string{"ada open failed_closed error", "ada local failed_closed error", "ada closed failed_closed error"}, "", ""},
		{"local", []policy.Config{local}, fakestore.Memory(t), []enforce.Outcome{enforce.Admitted, enforce.Denied}, []string{"ada local denied local error"}, policy.Local, "local"},
		{"local decides for itself alone", []policy.Config{opened, local}, fakestore.Memory(t), []enforce.Outcome{enforce.Admitted},
			[]string{"ada open failed_open error", "ada local admitted local error"}, policy.Local, ""},
		{"local denies", []policy.Config{opened, local}, fakestore.Memory(t), []enforce.Outcome{enforce.Admitted, enforce.Denied},
			[]string{"ada open held error", "ada local denied local error"}, policy.Local, "local"},
		{"local fails too", []policy.Config{opened, local}, fakestore.Failing(alsoDown), []enforce.Outcome{enforce.FailedClosed},
			[]string{"ada open failed_closed error", "ada local failed_closed error"}, "", ""},
	} {
		c := enforce.Config{Options: enforce.Options{Local: tc.local}}
		events := observed(&c)
		e := open(t, fakestore.Failing(down), c, tc.policies...)
		var p enforce.Admission
		for step, want := range tc.want {
			events()
			if got := enter(t, e, &p); got != want || !errors.Is(p.Err(), down) || p.NeedsExit() {
				t.Errorf("%s, step %d: %s, %v, want %s and why", tc.name, step, got, p.Err(), want)
			}
		}
		same(t, tc.name+": events", events(), tc.events...)
		d := p.Decision()
		if d.Degraded != tc.degraded || d.Limit.IsZero() != (tc.degraded == "") {
			t.Errorf("%s: decision %+v, want one made by %q", tc.name, d, tc.degraded)
		}
		if by := p.DeniedBy(); tc.denier == "" && by != nil || tc.denier != "" && (by == nil || by.Name() != tc.denier) {
			t.Errorf("%s: denied by %v, want %q", tc.name, by, tc.denier)
		}
		if tc.local != nil && tc.name == "local fails too" && !errors.Is(p.Err(), alsoDown) {
			t.Errorf("%s: %v, want both reasons", tc.name, p.Err())
		}
	}
}

// TestStoreErrorsOfShadows checks that policies in shadow mode refuse no request.
func TestStoreErrorsOfShadows(t *testing.T) {
	shadow := failMode("p", policy.Closed, "9/h")
	shadow.Mode = policy.Shadow
	var c enforce.Config
	events := observed(&c)
	var p enforce.Admission
	if got := enter(t, open(t, fakestore.Failing(weir.ErrUnavailable), c, shadow), &p); got != enforce.Admitted || p.Err() != nil {
		t.Errorf("%s, %v, want admitted: nothing that counts failed", got, p.Err())
	}
	same(t, "events", events(), "ada p failed_open shadow error")
}

// TestErrorThenDecision checks that Local decides only while the store does not.
func TestErrorThenDecision(t *testing.T) {
	local, store, down := fakestore.Memory(t), fakestore.Memory(t), true
	flaky := fakestore.Around(store, func(context.Context, *weir.Request) error {
		if down {
			return weir.ErrUnavailable
		}
		return nil
	}, nil)
	e := open(t, flaky, enforce.Config{Options: enforce.Options{Local: local}}, failMode("p", policy.Local, "9/h"))
	var p enforce.Admission
	for step := range 4 {
		down = step%2 == 0
		enter(t, e, &p)
		if got := p.Decision().Degraded == policy.Local; got != down || (p.Err() != nil) != down {
			t.Errorf("step %d: local %t, %v, want %t", step, got, p.Err(), down)
		}
	}
	if a, b := taken(t, local, "p", "9/h"), taken(t, store, "p", "9/h"); a != 2 || b != 2 {
		t.Errorf("taken %d of Local and %d of the store, want 2 and 2", a, b)
	}
}

// TestLocalReservations checks that reservations of Local are settled with Local.
func TestLocalReservations(t *testing.T) {
	local := fakestore.Memory(t)
	counted := failMode("counted", policy.Local, "9/24h")
	counted.Count = policy.CountFailures
	e := open(t, fakestore.Failing(weir.ErrUnavailable), enforce.Config{Options: enforce.Options{Local: local}}, counted, failMode("slot", policy.Local, "1 concurrency lease 1h"))
	for step, status := range []int{200, 500, 200} {
		var p enforce.Admission
		if got := enter(t, e, &p); got != enforce.Admitted || !p.NeedsExit() {
			t.Errorf("step %d: %s, holds %t, want admitted with a slot", step, got, p.NeedsExit())
		}
		p.Exit(enforce.Result{Status: status})
	}
	if got := taken(t, local, "counted", "9/24h"); got != 1 {
		t.Errorf("%d are taken, want the failure alone", got)
	}
}

// TestLateGrants checks that a reservation without a reply is canceled at the end of the
// request.
func TestLateGrants(t *testing.T) {
	for _, mode := range []policy.FailMode{policy.Open, policy.Closed} {
		memory := fakestore.Memory(t)
		noReply := fakestore.Around(memory, nil, func(r weir.Request, _ weir.Decision) error {
			if r.Verb == weir.Reserve {
				return weir.ErrUnavailable
			}
			return nil
		})
		counted := failMode("counted", mode, "9/24h")
		counted.Count = policy.CountFailures
		e := open(t, noReply, enforce.Config{}, counted, failMode("slot", mode, "9 concurrency lease 1h"))
		var p enforce.Admission
		got := enter(t, e, &p)
		if p.NeedsExit() != got.Passes() || got.Passes() != (mode == policy.Open) {
			t.Errorf("%s: %s, holds %t, want to hold what may have been granted while it runs", mode, got, p.NeedsExit())
		}
		p.Exit(enforce.Result{Status: 500})
		if got := holdings(t, memory); len(got) != 0 {
			t.Errorf("%s: taken %v, want nothing", mode, got)
		}
	}
}

// TestTooManyLimitsAreRefused checks that a request is refused in every mode if it matches more
// limits than a store decides together. One policy is for its method and one for its header.
func TestTooManyLimitsAreRefused(t *testing.T) {
	for _, mode := range []policy.FailMode{policy.Open, policy.Closed, policy.Local} {
		var config enforce.Config
		events := observed(&config)
		var cs []policy.Config
		for name, match := range map[string]policy.Match{"method": {Methods: []string{"PUT"}}, "header": {Headers: map[string][]string{"User": {"ada"}}}} {
			c := failMode(name, mode)
			c.Match = match
			for i := range 129 {
				c.Limits = append(c.Limits, weir.MustLimit(fmt.Sprintf("%d/h", i+1)))
			}
			cs = append(cs, c)
		}
		store := fakestore.Memory(t)
		e := open(t, store, config, cs...)
		var p enforce.Admission
		if got := e.Enter(t.Context(), by("ada", "PUT"), &p); got != enforce.FailedClosed || p.Err() == nil || !strings.Contains(p.Err().Error(), "258 limits") {
			t.Errorf("mode %s: %s, %v, want failed_closed and an error with the number", mode, got, p.Err())
		}
		if got := events(); len(got) != 2 || !strings.HasSuffix(got[0], " failed_closed error") {
			t.Errorf("mode %s: events = %q, want one of failed_closed for each policy", mode, got)
		}
		if got := e.Enter(t.Context(), by("bob", "PUT"), &p); got != enforce.Admitted || len(p.Charges()) != 1 {
			t.Errorf("mode %s: bob: %s, %v, want admitted by one policy", mode, got, p.Err())
		}
	}
}
