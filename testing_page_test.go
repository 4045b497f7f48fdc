package weir_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/memstore"
)

// The tests of docs/testing.md. The page has the same code (e2e: TestDocs).

func TestQuota(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	store, err := memstore.New(memstore.Config{Clock: func() int64 { return now.UnixMicro() }})
	if err != nil {
		t.Fatal(err)
	}
	lim, err := weir.New(store, weir.MustLimit("2/day calendar UTC"), weir.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, true, false} {
		if got := lim.AllowKey("ada"); got != want {
			t.Errorf("request %d admitted = %v, want %v", i, got, want)
		}
	}
	now = now.Add(12 * time.Hour)
	if !lim.AllowKey("ada") {
		t.Error("denied on the next day")
	}
}

func TestSendsOncePerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := memstore.MustLimiter("1/s")
		begin := time.Now()
		for range 3 {
			if err := lim.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("3 messages took %v, want 2s", took)
		}
	})
}

func TestDenied(t *testing.T) {
	lim, err := weir.New(failover.Closed(), weir.MustLimit("10/s"), weir.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := lim.Wait(ctx); !errors.Is(err, weir.ErrDenied) {
		t.Errorf("Wait = %v, want ErrDenied", err)
	}
}

type failingStore struct{ weir.Store }

func (failingStore) Do(context.Context, weir.Request) (weir.Decision, error) {
	return weir.Decision{}, fmt.Errorf("test: %w", weir.ErrUnavailable)
}

func TestFailingStore(t *testing.T) {
	lim, err := weir.New(failingStore{}, weir.MustLimit("10/s"), weir.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lim.Take(t.Context(), "ada", 1); !errors.Is(err, weir.ErrUnavailable) {
		t.Errorf("Take = %v, want ErrUnavailable", err)
	}
	if lim.Allow() {
		t.Error("Allow = true without a decision")
	}
}
