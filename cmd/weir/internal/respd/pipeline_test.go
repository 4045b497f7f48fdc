package respd_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/respd"
)

// TestPipelineOverRemoteStore checks that over a slow store, calls about different keys
// are decided in parallel, and calls about one key in their order.
func TestPipelineOverRemoteStore(t *testing.T) {
	var mu sync.Mutex
	order := map[string][]int64{}
	running, most := 0, 0
	store := &fake{do: func(r weir.Request) (weir.Decision, error) {
		mu.Lock()
		running++
		most = max(most, running)
		order[r.Key] = append(order[r.Key], r.N)
		mu.Unlock()
		<-time.After(2 * time.Millisecond)
		mu.Lock()
		running--
		mu.Unlock()
		return weir.Decision{OK: true, Remaining: r.N}, nil
	}}
	_, addr := start(t, respd.Config{Store: store})
	c := dial(t, addr)
	const n, keys = 600, 20
	var all strings.Builder
	for i := range n {
		if i == n/2 {
			all.WriteString(encode("ECHO", "in between"))
		}
		all.WriteString(encode("CL.THROTTLE", fmt.Sprint("k", i%keys), "999", "1", "1", fmt.Sprint(i+1)))
	}
	begun := time.Now()
	go io.WriteString(c.Conn, all.String())
	for i := range n {
		if i == n/2 {
			if got, err := read(c.r); got != `"in between"` {
				t.Fatalf("reply %d = %s, %v", i, got, err)
			}
		}
		if got, err := read(c.r); got != fmt.Sprintf("[0 1000 %d -1 0]", i+1) {
			t.Fatalf("reply %d = %s, %v", i, got, err)
		}
	}
	t.Logf("%d asks of 2 ms each in %v, %d at a time", n, time.Since(begun).Round(time.Millisecond), most)
	for key, seen := range order {
		for i := range seen[1:] {
			if seen[i+1] < seen[i] {
				t.Errorf("%s was asked in the order %v", key, seen)
				break
			}
		}
	}
	if most < 5 || most > 32 {
		t.Errorf("%d asks at a time, want several and at most 32", most)
	}
}

// TestPipelineOfOneKey checks that the first calls of a pipeline get the tokens.
func TestPipelineOfOneKey(t *testing.T) {
	_, addr := start(t, respd.Config{})
	c := dial(t, addr)
	c.send(t, strings.Repeat(encode("CL.THROTTLE", "k", "9", "1", "3600"), 300))
	for i := range 300 {
		got, err := read(c.r)
		if err != nil {
			t.Fatal(err)
		}
		if want := "[" + map[bool]string{true: "0", false: "1"}[i < 10] + " 10 "; !strings.HasPrefix(got, want) {
			t.Fatalf("reply %d = %s, want %s…", i, got, want)
		}
	}
}

// TestStoreErrors checks that an error of the store becomes an error in redis-cell's
// style, without the details of the store.
func TestStoreErrors(t *testing.T) {
	var err atomic.Value
	store := &fake{do: func(weir.Request) (weir.Decision, error) { return weir.Decision{}, err.Load().(error) }}
	var events []respd.Event
	_, addr := start(t, respd.Config{Store: store, Observe: func(e respd.Event) { events = append(events, e) }})
	c := dial(t, addr)
	for _, test := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("secret: %w", weir.ErrUnavailable), "-Cell error: Store error: The store is unavailable"},
		{fmt.Errorf("secret: %w", weir.ErrFull), "-Cell error: Store error: The store is full"},
		{fmt.Errorf("secret: %w", weir.ErrInvalid), "-Cell error: Store error: The request is not valid"},
		{&weir.OverloadError{Reason: "secret", RetryAfter: 3 * time.Second}, "-Cell error: Store error: The server is overloaded, retry after 3s"},
		{errors.New("secret"), "-Cell error: Store error: The store is unavailable"},
	} {
		err.Store(fmt.Errorf("%w", test.err))
		if got := c.do(t, "CL.THROTTLE", "k", "1", "1", "1"); got != test.want {
			t.Errorf("%v = %s, want %s", test.err, got, test.want)
		}
		if last := events[len(events)-1]; !errors.Is(last.Err, test.err) || last.Request.Key != "k" {
			t.Errorf("%v: the event is %+v", test.err, last)
		}
	}
}

// TestEvents checks that calls are observed, and counted in INFO.
func TestEvents(t *testing.T) {
	var events []respd.Event
	_, addr := start(t, respd.Config{Observe: func(e respd.Event) { events = append(events, e) }, Version: "1.2.3"})
	c := dial(t, addr)
	for _, quantity := range []string{"2", "0", "-1", "1", "1"} {
		c.do(t, "CL.THROTTLE", "k", "1", "60", "60", quantity)
	}
	c.do(t, "CL.THROTTLE", "k", "x", "60", "60")
	for i, want := range []struct {
		verb weir.Verb
		n    int64
		ok   bool
	}{{weir.Take, 2, true}, {weir.Peek, 0, true}, {weir.Return, 1, true}, {weir.Take, 1, true}, {weir.Take, 1, false}} {
		if i >= len(events) {
			t.Fatalf("%d events", len(events))
		}
		e := events[i]
		if e.Request.Verb != want.verb || e.Request.N != want.n || e.Decision.OK != want.ok || e.Request.Limit.String() != "60/m burst 2" {
			t.Errorf("event %d = %+v, want %+v", i, e, want)
		}
	}
	if len(events) != 5 {
		t.Errorf("%d events, want none of what was never asked", len(events))
	}
	info := c.do(t, "INFO")
	for _, want := range []string{
		"weir_version:1.2.3", "redis_version:", "server_name:weir", "connected_clients:1", "total_commands_processed:7",
		"throttle_allowed:4", "throttle_limited:1", "throttle_errors:0",
	} {
		if !strings.Contains(info, want) {
			t.Errorf("INFO has no %s:\n%s", want, info)
		}
	}
}

// TestSharedWithOtherInterfaces checks that a limit with the name of the states finds the state
// of a key.
func TestSharedWithOtherInterfaces(t *testing.T) {
	store := memory(t, nil)
	_, addr := start(t, respd.Config{Store: store})
	dial(t, addr).do(t, "CL.THROTTLE", "user:42", "9", "30", "60", "4")
	d, err := store.Do(t.Context(), weir.Request{Key: "user:42", Limit: weir.MustLimit("30/m burst 10").Named("throttle"), Verb: weir.Peek, N: 1})
	if err != nil || d.Remaining != 6 {
		t.Errorf("another interface finds %d tokens, %v, want 6", d.Remaining, err)
	}
}

// TestFastRates checks that above 1,000 per second as many calls pass as the parameters
// allow, at any start time.
func TestFastRates(t *testing.T) {
	var now atomic.Int64
	now.Store(1_700_000_000_000_000)
	_, addr := start(t, respd.Config{Store: memory(t, &now)})
	c := dial(t, addr)
	for _, perSecond := range []int{3000, 6000, 7001} {
		admitted, asked := 0, 0
		for range 100 { // of 1 ms: a tenth of a second
			asks := 3 * perSecond / 1000
			c.send(t, strings.Repeat(encode("CL.THROTTLE", fmt.Sprint("fast", perSecond), "0", fmt.Sprint(perSecond), "1"), asks))
			for range asks {
				got, err := read(c.r)
				if err != nil {
					t.Fatal(err)
				}
				if asked++; strings.HasPrefix(got, "[0 ") {
					admitted++
				}
			}
			now.Add(1000)
		}
		// One fits at a time, so each instant of asking admits one.
		if admitted != 100 {
			t.Errorf("%d per second without a burst: %d of %d admitted at 100 instants, want 100", perSecond, admitted, asked)
		}
	}
	admitted := 0
	for range 20_000 { // 50 µs each: a second
		if strings.HasPrefix(c.do(t, "CL.THROTTLE", "steady", "9", "6000", "1"), "[0 ") {
			admitted++
		}
		now.Add(50)
	}
	t.Logf("6,000 per second with a burst of 9 for a second: %d admitted", admitted)
	if admitted < 6000 || admitted > 6010 {
		t.Errorf("%d admitted, want 6000 to 6010", admitted)
	}
}

// TestPipelineKeys checks that the store receives the keys of a pipeline, of all lengths, with invalid
// commands between them.
func TestPipelineKeys(t *testing.T) {
	var got, want []string
	store := &fake{do: func(r weir.Request) (weir.Decision, error) {
		got = append(got, r.Key)
		return weir.Decision{OK: true}, nil
	}}
	_, addr := start(t, respd.Config{Store: store})
	c := dial(t, addr)
	var all strings.Builder
	commands := 0
	send := func(args ...string) {
		all.WriteString(encode(append([]string{"CL.THROTTLE"}, args...)...))
		commands++
	}
	for _, n := range []int{1, 254, 1, 1, 256, 255, 2, 300, 3, 5000, 4} {
		key := strings.Repeat(string(rune('a'+commands%26)), n)
		want = append(want, key)
		send(key, "9", "1", "1")
		send("no number", "x", "1", "1")
		send("", "9", "1", "1")
		send("no rate", "9", "0", "1")
	}
	io.WriteString(c.Conn, all.String())
	for range commands {
		if _, err := read(c.r); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the store received the keys %q, want %q", got, want)
	}
}
