package weir_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/memstore"
)

// TestReservationAfterSetLimit checks that a handle settles and extends its reservation after
// changes of the limit, whether or not the state has migrated to the present limit.
func TestReservationAfterSetLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		for i, c := range []struct {
			name     string
			before   string
			after    []string
			requests bool // one token under each limit
			verb     weir.Verb
			n        int64
			granted  int64
			free     int64
		}{
			{"", "100/24h", []string{"200/24h"}, true, weir.Commit, 30, 30, 169},
			{"", "100/24h", []string{"200/24h"}, false, weir.Commit, 30, 30, 170},
			{"", "100/24h", []string{"200/24h"}, true, weir.Cancel, 0, 0, 199},
			{"", "100/24h fixed_window", []string{"200/24h fixed_window"}, true, weir.Commit, 90, 90, 109},
			{"", "100/24h", []string{"101/24h", "102/24h", "103/24h", "104/24h", "105/24h", "106/24h"}, true, weir.Commit, 1, 1, 99},
			{"", "100/24h", []string{"101/24h", "102/24h", "103/24h", "104/24h", "105/24h", "106/24h"}, false, weir.Commit, 1, 1, 106}, // a key without requests keeps usage for four changes
			{"name", "100/24h", []string{"200/24h", "150/24h", "160/24h", "170/24h", "180/24h", "190/24h"}, true, weir.Commit, 30, 30, 154},
			{"", "2 concurrency", []string{"3 concurrency"}, true, weir.Cancel, 0, 0, 2},
			{"", "2 concurrency", []string{"3 concurrency"}, true, weir.Reserve, 1, 1, 1},
			{"", "3 concurrency", []string{"2 concurrency"}, false, weir.Reserve, 1, 1, 1},
			{"name", "2 concurrency", []string{"4 concurrency", "3 concurrency"}, false, weir.Reserve, 1, 1, 2},
		} {
			l := newLimiter(t, c.before, weir.Config{Name: c.name})
			n := int64(80)
			if l.Limit().IsConcurrency() {
				n = 1
			}
			r, d, err := l.Reserve(ctx, "k", "id", n, time.Minute)
			if err != nil || !d.OK {
				t.Fatalf("case %d: Reserve = %+v, %v", i, d, err)
			}
			for _, text := range c.after {
				if err := l.SetLimit(weir.MustLimit(text), weir.CarryUsage); err != nil {
					t.Fatal(err)
				}
				if !c.requests {
					continue
				}
				if d, err := l.Take(ctx, "k", 1); err != nil || !d.OK {
					t.Fatalf("case %d: Take under %s = %+v, %v", i, text, d, err)
				}
			}
			switch c.verb {
			case weir.Commit:
				d, err = r.Commit(ctx, c.n)
			case weir.Cancel:
				d, err = r.Cancel(ctx)
			default:
				d, err = r.Extend(ctx, time.Minute)
			}
			if err != nil || !d.OK || d.Granted != c.granted || d.Limit.String() != l.Limit().String() {
				t.Errorf("case %d: %s under %s = %+v, %v, want %d granted", i, c.verb, l.Limit(), d, err, c.granted)
			}
			if d, err := l.Peek(ctx, "k", 1); err != nil || d.Remaining != c.free {
				t.Errorf("case %d: %d remaining after %s, %v, want %d", i, d.Remaining, c.verb, err, c.free)
			}
			<-time.After(2 * time.Minute) // nothing returns twice
			if d, err := l.Peek(ctx, "k", 1); err != nil || c.verb == weir.Commit && d.Remaining > c.free+1 {
				t.Errorf("case %d: %d remaining after the TTL, %v, want %d", i, d.Remaining, err, c.free)
			}
		}
	})
}

// TestReservationDuringSetLimit checks that a settlement reaches its reservation if the limit
// changes, and the state migrates, while the settlement is sent.
func TestReservationDuringSetLimit(t *testing.T) {
	var l *weir.Limiter
	changes := 0
	store := fakestore.Around(fakestore.Memory(t), func(ctx context.Context, r *weir.Request) error {
		if r.Verb != weir.Commit || changes == 3 {
			return nil
		}
		changes++
		if err := l.SetLimit(weir.MustLimit(fmt.Sprint(200+changes, "/24h")), weir.CarryUsage); err != nil {
			return err
		}
		_, err := l.Take(ctx, "k", 1)
		return err
	}, nil)
	var err error
	if l, err = weir.New(store, weir.MustLimit("100/24h"), weir.Config{}); err != nil {
		t.Fatal(err)
	}
	r, _, err := l.Reserve(t.Context(), "k", "id", 80, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := r.Commit(t.Context(), 30); err != nil || d.Granted != 30 || d.Remaining != 170 {
		t.Errorf("Commit(30) = %+v, %v, want 30 granted and 170 of 203 remaining", d, err)
	}
	if _, err := reservation(t, l, "unknown").Cancel(t.Context()); !errors.Is(err, weir.ErrNoReservation) {
		t.Errorf("Cancel of an unknown id: %v, want ErrNoReservation", err)
	}
}

// TestReservationKeepsItsLimit checks that a reservation is settled under the limit that it
// was made under if the present limit is unknown, or gives slots in place of tokens.
func TestReservationKeepsItsLimit(t *testing.T) {
	ctx := t.Context()
	fails := errors.New("database down")
	limit, err := weir.MustLimit("100/24h"), error(nil)
	store, openErr := memstore.New(memstore.Config{})
	if openErr != nil {
		t.Fatal(openErr)
	}
	defer store.Close()
	l, newErr := weir.New(store, limit, weir.Config{LimitFunc: func(context.Context, string) (weir.Limit, error) { return limit, err }})
	if newErr != nil {
		t.Fatal(newErr)
	}
	for i, change := range []func(){
		func() { err = fails },
		func() { limit, err = weir.MustLimit("5 concurrency"), nil },
	} {
		limit, err = weir.MustLimit("100/24h"), nil
		r, _, reserve := l.Reserve(ctx, "k", fmt.Sprint("id", i), 10, time.Minute)
		if reserve != nil {
			t.Fatal(reserve)
		}
		change()
		if d, err := r.Cancel(ctx); err != nil || d.Remaining != 100 {
			t.Errorf("change %d: Cancel = %+v, %v, want 100 remaining", i, d, err)
		}
	}
}

// TestNamedLimiters checks that processes which change the limit of a name one after another
// share one state: they admit no more than one limit after the other does.
func TestNamedLimiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		store := fakestore.Memory(t)
		open := func(c weir.Config) *weir.Limiter {
			l, err := weir.New(store, weir.MustLimit("100/h"), c)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		own := func(context.Context, string) (weir.Limit, error) { return weir.MustLimit("120/h"), nil }
		first, second, third := open(weir.Config{Name: "api"}), open(weir.Config{Name: "api"}), open(weir.Config{Name: "api", LimitFunc: own})
		admitted := int64(0)
		for i, c := range []struct {
			change *weir.Limiter
			to     string
			most   int64
		}{{nil, "", 120}, {first, "60/h", 120}, {second, "60/h", 120}, {first, "130/h", 130}, {second, "130/h", 130}} {
			if c.change != nil {
				if err := c.change.SetLimit(weir.MustLimit(c.to), weir.CarryUsage); err != nil {
					t.Fatal(err)
				}
			}
			for _, l := range []*weir.Limiter{first, second, third, second, first} {
				d, err := l.TakeUpTo(ctx, "k", 200)
				if err != nil {
					t.Fatal(err)
				}
				admitted += d.Granted
			}
			if admitted != c.most {
				t.Errorf("step %d: %d admitted in all, want %d", i, admitted, c.most)
			}
		}
		if d, err := open(weir.Config{Name: "other"}).Take(ctx, "k", 100); err != nil || !d.OK {
			t.Errorf("Take under another name = %+v, %v, want an admission", d, err)
		}
	})
}
