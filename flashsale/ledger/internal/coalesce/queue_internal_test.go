package coalesce

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// gathered is a Queue whose batches wait for a signal, with the requests that they had.
type gathered struct {
	Queue[string, string]
	calls []string
	more  chan func()
}

func newGathered(atOnce, most int) *gathered {
	g := &gathered{more: make(chan func())}
	g.Queue = Queue[string, string]{MaxCalls: atOnce, MaxBatch: most, Run: func(batch []*Request[string, string]) {
		var all []string
		for _, q := range batch {
			all = append(all, q.Arg)
		}
		g.mu.Lock()
		g.calls = append(g.calls, strings.Join(all, ""))
		g.mu.Unlock()
		(<-g.more)()
		for _, q := range batch {
			q.Result, q.Err = "<"+q.Arg+">", nil
		}
	}}
	return g
}

func nothing() {}

// TestGather asks one by one while calls are under way, in another order than they end.
func TestGather(t *testing.T) {
	for _, c := range []struct {
		name         string
		atOnce, most int
		keyed        bool
		asked        string
		want         []string
	}{
		{"alone", 1, 9, false, "a", []string{"a"}},
		{"together", 1, 9, false, "abcd", []string{"a", "bcd"}},
		{"two at once", 2, 9, false, "abcde", []string{"a", "b", "cde"}},
		{"bounded", 1, 2, false, "abcdef", []string{"a", "bc", "de", "f"}},
		{"never with its like", 1, 9, true, "aBbcCAdD", []string{"a", "BcAd", "bCD"}},
		{"bounded and never with its like", 1, 2, true, "abBcdD", []string{"a", "bc", "Bd", "D"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGathered(c.atOnce, c.most)
				if c.keyed {
					g.Keys = func(s string) []string { return []string{strings.ToLower(s), "own " + s} }
				}
				for _, r := range c.asked {
					go func() {
						if b, err := g.Submit(t.Context(), string(r)); b != "<"+string(r)+">" || err != nil {
							t.Errorf("%c: %q, %v", r, b, err)
						}
					}()
					synctest.Wait()
				}
				for range c.want {
					g.more <- nothing
					synctest.Wait()
				}
				if !slices.Equal(g.calls, c.want) || g.Queue.calls != 0 || len(g.waiting) != 0 {
					t.Errorf("calls %q, want %q; %d under way, %d wait", g.calls, c.want, g.Queue.calls, len(g.waiting))
				}
			})
		})
	}
}

// TestGatherGivenUp checks that a canceled caller returns at once, whether its request is in a
// batch or not, and that the other callers get their results.
func TestGatherGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGathered(1, 9)
		var mu sync.Mutex // guards got while goroutines run
		got := map[string]error{}
		var gave [4]context.CancelFunc
		for i := range gave {
			ctx, cancel := context.WithCancel(t.Context())
			gave[i] = cancel
			go func() {
				_, err := g.Submit(ctx, fmt.Sprint(i))
				mu.Lock()
				defer mu.Unlock()
				got[fmt.Sprint(i)] = err
			}()
			synctest.Wait()
		}
		gone := func(who string) bool { return errors.Is(got[who], context.Canceled) }
		gave[0]() // it is asked for
		gave[2]() // it waits
		synctest.Wait()
		if len(got) != 2 || !gone("0") || !gone("2") {
			t.Fatalf("while the first call is under way: %v", got)
		}
		g.more <- nothing
		synctest.Wait() // 1 and 3 are asked for
		gave[3]()
		synctest.Wait()
		if len(got) != 3 || !gone("3") {
			t.Fatalf("while the second call is under way: %v", got)
		}
		g.more <- nothing
		synctest.Wait()
		if len(got) != 4 || got["1"] != nil || !slices.Equal(g.calls, []string{"0", "13"}) || g.Queue.calls != 0 {
			t.Fatalf("%v, calls %q", got, g.calls)
		}
		gave[1]()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := g.Submit(ctx, "x"); !errors.Is(err, context.Canceled) || len(g.calls) != 2 {
			t.Fatalf("given up before: %v, calls %q", err, g.calls)
		}
	})
}

// TestGatherGivenUpAtOnce checks that a request which is withdrawn when the next batch starts
// may still be executed.
func TestGatherGivenUpAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 200 {
			g := newGathered(1, 9)
			ctx, giveUp := context.WithCancel(t.Context())
			var got [3]error
			for i, c := range []context.Context{t.Context(), ctx, t.Context()} {
				go func() { _, got[i] = g.Submit(c, fmt.Sprint(i)) }()
				synctest.Wait()
			}
			go giveUp()
			g.more <- nothing
			g.more <- nothing
			synctest.Wait()
			if got[0] != nil || got[1] != nil && !errors.Is(got[1], context.Canceled) || got[2] != nil || g.Queue.calls != 0 || len(g.waiting) != 0 {
				t.Fatalf("%v, %d calls under way, %d wait", got, g.Queue.calls, len(g.waiting))
			}
		}
	})
}

// TestGatherEnds checks that a batch which ends its goroutine returns an error to its callers,
// and that the next batch runs.
func TestGatherEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGathered(1, 9)
		var got [4]error
		for i := range got {
			go func() {
				_, got[i] = g.Submit(t.Context(), fmt.Sprint(i))
			}()
			synctest.Wait()
		}
		g.more <- nothing
		g.more <- runtime.Goexit
		synctest.Wait()
		if got[0] != nil || !errors.Is(got[1], sale.ErrUnavailable) || !errors.Is(got[2], sale.ErrUnavailable) || !errors.Is(got[3], sale.ErrUnavailable) {
			t.Fatal(got)
		}
		go func() { g.more <- nothing }()
		if b, err := g.Submit(t.Context(), "x"); b != "<x>" || err != nil {
			t.Fatal(b, err)
		}
	})
}

// TestWait checks that requests join one batch while another is in progress, and that a slow batch
// delays them by Wait only.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGathered(2, 9)
		g.Wait = 30 * time.Millisecond
		for _, r := range "abc" {
			go g.Submit(t.Context(), string(r))
			synctest.Wait()
		}
		began := func() string {
			g.mu.Lock()
			defer g.mu.Unlock()
			return strings.Join(g.calls, " ")
		}
		<-time.After(29 * time.Millisecond)
		if got := began(); got != "a" {
			t.Errorf("after 29 ms: %q, want a", got)
		}
		<-time.After(2 * time.Millisecond)
		if got := began(); got != "a bc" {
			t.Errorf("after 31 ms: %q, want a bc", got)
		}
		go g.Submit(t.Context(), "d") // no third batch at once
		<-time.After(time.Second)
		if got := began(); got != "a bc" {
			t.Errorf("after a second: %q, want a bc", got)
		}
		for range 3 {
			g.more <- nothing
		}
		synctest.Wait()
		if got := began(); got != "a bc d" || g.Queue.calls != 0 {
			t.Errorf("in the end: %q and %d in progress, want a bc d and 0", got, g.Queue.calls)
		}
	})
}

// TestGatherFor checks that requests after a batch join one batch. It starts Gather after the end
// of the one before, or at once when it is full. A later request does not wait.
func TestGatherFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGathered(1, 3)
		g.Gather, g.Wait = 5*time.Millisecond, time.Second
		ask := func(all string) {
			for _, r := range all {
				go g.Submit(t.Context(), string(r))
				synctest.Wait()
			}
		}
		began := func(after time.Duration, want string) {
			t.Helper()
			<-time.After(after)
			synctest.Wait()
			g.mu.Lock()
			defer g.mu.Unlock()
			if got := strings.Join(g.calls, " "); got != want {
				t.Errorf("calls %q, want %q", got, want)
			}
		}
		end := func() {
			g.more <- nothing
			synctest.Wait()
		}
		ask("ab")
		end()
		began(4*time.Millisecond, "a")
		ask("c")
		began(time.Millisecond, "a bc")
		end()
		ask("d")
		began(time.Millisecond, "a bc")
		ask("ef")
		began(0, "a bc def")
		end()
		<-time.After(6 * time.Millisecond)
		ask("g")
		began(0, "a bc def g")
		end()
		if g.Queue.calls != 0 || len(g.waiting) != 0 {
			t.Errorf("%d in progress, %d wait", g.Queue.calls, len(g.waiting))
		}
	})
}

// TestLoaded checks that the batch after one of LoadedSize requests waits for longer, but not after a small
// or a full one.
func TestLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGathered(1, 12)
		g.Gather, g.Loaded = 5*time.Millisecond, 20*time.Millisecond
		ask := func(n int) {
			for range n {
				go g.Submit(t.Context(), "a")
			}
			synctest.Wait()
		}
		ask(1) // starts at once
		wait := 5 * time.Millisecond
		for i, c := range []struct {
			size int
			next time.Duration // between its end and the start of the next batch
		}{{LoadedSize - 1, 5}, {LoadedSize, 20}, {11, 20}, {12, 5}, {1, 5}} {
			ask(c.size)
			g.more <- nothing
			if c.size < 12 { // a full one starts at once
				<-time.After(wait - 1)
				synctest.Wait()
				if len(g.calls) != i+1 {
					t.Fatalf("step %d: %d batches before the time, want %d", i, len(g.calls), i+1)
				}
				<-time.After(1)
			}
			synctest.Wait()
			if len(g.calls) != i+2 || len(g.calls[i+1]) != c.size {
				t.Fatalf("step %d: batches %q, want the last with %d", i, g.calls, c.size)
			}
			wait = c.next * time.Millisecond
		}
		g.more <- nothing
		synctest.Wait()
	})
}

// TestEnough checks that a batch starts when it has EnoughSize, and not before.
func TestEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGathered(1, 2*EnoughSize)
		g.Gather = time.Second
		ask := func(n int) {
			for range n {
				go g.Submit(t.Context(), "a")
			}
			synctest.Wait()
		}
		ask(1)
		g.more <- nothing
		synctest.Wait()
		ask(EnoughSize - 1)
		if len(g.calls) != 1 {
			t.Fatalf("%d requests started a batch, want that they wait", EnoughSize-1)
		}
		ask(1)
		if len(g.calls) != 2 || len(g.calls[1]) != EnoughSize {
			t.Fatalf("batches %q, want the second with %d at once", g.calls, EnoughSize)
		}
		g.more <- nothing
		synctest.Wait()
	})
}
