package enforce_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// TestShadow checks that a policy in shadow mode is asked separately, denies no request,
// and takes nothing from the others.
func TestShadow(t *testing.T) {
	store := fakestore.Memory(t)
	enforced, shadow := about("enforced", "2/24h"), about("shadow", "1/24h")
	enforced.Candidate = []weir.Limit{weir.MustLimit("3/24h")}
	shadow.Mode = policy.Shadow
	var c enforce.Config
	events := observed(&c)
	e := open(t, store, c, shadow, enforced)
	var p enforce.Admission
	for step, want := range []struct {
		outcome enforce.Outcome
		events  []string
	}{
		{enforce.Admitted, []string{"ada enforced admitted", "ada shadow admitted shadow", "ada enforced~candidate admitted shadow"}},
		{enforce.Admitted, []string{"ada enforced admitted", "ada shadow denied shadow", "ada enforced~candidate admitted shadow"}},
		{enforce.Denied, []string{"ada enforced denied", "ada enforced~candidate admitted shadow"}},
		{enforce.Denied, []string{"ada enforced denied", "ada enforced~candidate denied shadow"}},
	} {
		got := enter(t, e, &p)
		if asks := p.Charges(); got != want.outcome || len(asks) != 1 || asks[0].Policy.Name() != "enforced" || p.Decision().Limit.Capacity() != 2 {
			t.Errorf("step %d: %s by %+v, want %s by what is enforced alone", step, got, asks, want.outcome)
		}
		same(t, fmt.Sprint("step ", step, ": events"), events(), want.events...)
	}
	if got := taken(t, store, "enforced~candidate", "3/24h"); got != 3 {
		t.Errorf("the candidate took %d, want 3", got)
	}
}

// TestCandidateOfADenied checks that a denied request, which has no result, is counted by
// its candidate as it is.
func TestCandidateOfADenied(t *testing.T) {
	store := fakestore.Memory(t)
	c := about("p", "1/24h")
	c.Count, c.Candidate = policy.CountFailures, []weir.Limit{weir.MustLimit("9/24h")}
	e := open(t, store, enforce.Config{}, c)
	var first, second enforce.Admission
	enter(t, e, &first)
	if got := enter(t, e, &second); got != enforce.Denied {
		t.Errorf("%s, want denied", got)
	}
	first.Exit(enforce.Result{Status: 200})
	if got := taken(t, store, "p~candidate", "9/24h"); got != 1 {
		t.Errorf("the candidate counts %d, want the denied one", got)
	}
}

// TestShadowAlone checks that a set with only shadow policies admits every request.
func TestShadowAlone(t *testing.T) {
	shadow := about("p", "1/24h")
	shadow.Mode = policy.Shadow
	e := open(t, fakestore.Memory(t), enforce.Config{}, shadow)
	var p enforce.Admission
	for step := range 3 {
		if got := enter(t, e, &p); got != enforce.Admitted || len(p.Charges()) != 0 || !p.Decision().Limit.IsZero() {
			t.Errorf("step %d: %s by %v, want admitted by none", step, got, p.Charges())
		}
	}
}

// TestPercent checks that a key stays enforced, or stays in shadow mode.
func TestPercent(t *testing.T) {
	some := about("p", "1/24h")
	some.Percent = 30
	shadows := map[string]bool{}
	e := open(t, fakestore.Memory(t), enforce.Config{Observe: func(_ context.Context, a policy.Attributes, event enforce.Event) {
		user := a.(*request).user
		if was, ok := shadows[user]; ok && was != event.Shadow {
			t.Errorf("%s changes sides", user)
		}
		shadows[user] = event.Shadow
	}}, some)
	denied := 0
	var p enforce.Admission
	for i := range 200 {
		user := fmt.Sprint("user ", i)
		for range 2 {
			if got := e.Enter(t.Context(), by(user, ""), &p); got == enforce.Denied {
				denied++
			}
		}
	}
	if denied < 40 || denied > 80 {
		t.Errorf("%d of 200 keys are denied, want about 60", denied)
	}
}

// TestShadowDoesNotWait checks that a policy in shadow mode delays no request.
func TestShadowDoesNotWait(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store) {
		shadow, queue := waiting("p", time.Minute, "1/s"), about("queue", "1/s leaky_bucket burst 9 queue")
		shadow.Mode, queue.Mode = policy.Shadow, policy.Shadow
		e := open(t, store, enforce.Config{}, shadow, queue)
		start := time.Now()
		for range 3 {
			var p enforce.Admission
			enter(t, e, &p)
		}
		if got := time.Since(start); got != 0 {
			t.Errorf("three requests wait %v, want no wait", got)
		}
	})
}
