package guard_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/guard"
)

func registry(t testing.TB, c guard.Config) *guard.Registry {
	t.Helper()
	r, err := guard.NewRegistry(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func limits(texts ...string) []weir.Limit {
	var ls []weir.Limit
	for _, text := range texts {
		ls = append(ls, weir.MustLimit(text))
	}
	return ls
}

// TestEnter: a guard admits what its limit says, for each key by itself, and says when
// to come again.
func TestEnter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := registry(t, guard.Config{}).MustGuard(guard.Point{Name: "getId", Limits: limits("2/10s")})
		ctx := context.Background()
		for i := range 2 {
			e, err := g.Enter(ctx, "a")
			if err != nil {
				t.Fatalf("call %d: %v", i, err)
			}
			e.Exit(nil)
		}
		time.Sleep(2 * time.Second)
		_, err := g.Enter(ctx, "a")
		var d *guard.Denied
		if !errors.As(err, &d) || !errors.Is(err, guard.ErrDenied) || d.Decision.RetryAfter != 3*time.Second {
			t.Fatalf("Enter = %v, want a denial for 3s", err)
		}
		if got, want := err.Error(), "rate limit exceeded: getId: retry after 3s"; got != want {
			t.Errorf("Error() = %q, want %q", got, want)
		}
		if _, err := g.Enter(ctx, "b"); err != nil {
			t.Errorf("another key: %v", err)
		}
	})
}
