package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/keyid"
	"github.com/floodweir/weir/cmd/weir/internal/nodes"
	"github.com/floodweir/weir/cmd/weir/internal/nodes/nodestest"
	"github.com/floodweir/weir/redisstore"
)

// A node is a running Exchange.
type node struct {
	*nodes.Exchange
	stop func()
	asks map[string]int // calls of Details by topic
	mu   sync.Mutex
}

// start runs an Exchange whose snapshot and details contain its name.
func start(t *testing.T, r *nodestest.Redis, name string) *node {
	t.Helper()
	n := &node{asks: map[string]int{}}
	var err error
	n.Exchange, err = nodes.New(nodes.Config{
		Conn: func() redisstore.Conn { return r }, Name: name, Program: "1.2.3",
		State:    func() nodes.State { return nodes.State{Version: 7, Store: "up", Mode: "normal"} },
		Snapshot: func() []byte { return []byte("counts of\n" + name) },
		Details: func(topic string) []byte {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.asks[topic]++
			return []byte(topic + " of " + name)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		n.Run(ctx)
		close(done)
	}()
	n.stop = func() { cancel(); <-done }
	return n
}

// describe returns the names of a list with their states.
func describe(l nodes.List) string {
	var all []string
	for _, n := range l.Nodes {
		text := n.Name
		switch {
		case n.Self:
			text += " self"
		case n.Stale:
			text += " stale"
		default:
			text += fmt.Sprintf(" v%d %s %s", n.Version, n.Store, n.Mode)
		}
		if got := string(n.Snapshot); !n.Stale && got != "counts of\n"+n.Name {
			text += " with " + got
		}
		all = append(all, text)
	}
	text := strings.Join(all, ", ")
	if l.Err != nil {
		text += "; unavailable"
	}
	return text
}

func TestExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := nodestest.New()
		one, two, three := start(t, r, "gw-1"), start(t, r, "gw-2"), start(t, r, "gw-3")
		defer one.stop()
		is := func(step, want string) {
			t.Helper()
			synctest.Wait()
			if got := describe(one.Read(t.Context())); got != want {
				t.Errorf("%s: %s, want %s", step, got, want)
			}
		}
		is("before the first second", "gw-1 self")
		time.Sleep(2 * time.Second)
		is("after two seconds", "gw-1 self, gw-2 v7 up normal, gw-3 v7 up normal")
		if got := two.Read(t.Context()).Nodes[1]; got.Name != "gw-1" || got.Program != "1.2.3" || got.ID != one.ID() || got.PID == 0 || got.Seen >= nodes.Every {
			t.Errorf("second node sees %+v, want gw-1 with its identity", got)
		}
		three.stop()
		is("a node stopped", "gw-1 self, gw-2 v7 up normal")

		r.Fail(errors.New("connection refused"))
		time.Sleep(nodes.TTL - nodes.Every)
		is("Redis unavailable", "gw-1 self; unavailable")
		two.stop() // cannot remove itself
		r.Fail(nil)
		time.Sleep(2 * time.Second)
		is("Redis available, a node gone", "gw-1 self, gw-2 stale")
		if seen := one.Read(t.Context()).Nodes[1].Seen; seen < nodes.TTL || seen > nodes.TTL+3*time.Second {
			t.Errorf("a node without records was seen %v ago", seen)
		}
		time.Sleep(nodes.ListTTL)
		is("ten minutes later", "gw-1 self")
	})
}

// TestDetails checks that payloads are published only while a topic is wanted, every
// DetailsEvery, and that the number of topics is bounded.
func TestDetails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := nodestest.New()
		one, two := start(t, r, "gw-1"), start(t, r, "gw-2")
		defer one.stop()
		defer two.stop()
		time.Sleep(10 * time.Second)
		asks := func(n *node) int {
			synctest.Wait()
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.asks["policy:a/b"]
		}
		if n := asks(two); n != 0 {
			t.Errorf("%d payloads of a topic that is not wanted", n)
		}
		for range 6 {
			if err := one.Want(t.Context(), "policy:a/b"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
		}
		if n := asks(two); n < 5 || n > 7 {
			t.Errorf("%d payloads in 30 s, want one every 5 s", n)
		}
		got, err := one.Details(t.Context(), "policy:a/b", []string{two.ID(), "unknown"})
		if err != nil || len(got) != 1 || string(got[two.ID()]) != "policy:a/b of gw-2" {
			t.Errorf("Details = %q, %v, want the payload of the other node", got, err)
		}
		time.Sleep(2 * nodes.WantTTL)
		before := asks(two)
		time.Sleep(time.Minute)
		if n := asks(two); n != before {
			t.Errorf("%d payloads after the topic ended", n-before)
		}
		if got, err := one.Details(t.Context(), "policy:a/b", []string{two.ID()}); err != nil || len(got) != 0 {
			t.Errorf("Details = %q, %v a minute later, want none", got, err)
		}
		for i := range nodes.MaxWanted {
			if err := one.Want(t.Context(), fmt.Sprint("t", i)); err != nil {
				t.Fatal(err)
			}
		}
		if one.Want(t.Context(), "t0") != nil || one.Want(t.Context(), "one more") == nil {
			t.Errorf("want an error for more than %d topics, and none for one of them", nodes.MaxWanted)
		}
	})
}

// TestBounds checks that a large payload is left out, and that the list of nodes is bounded.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := nodestest.New()
		one := start(t, r, "gw-1")
		big, err := nodes.New(nodes.Config{
			Conn: func() redisstore.Conn { return r }, Name: strings.Repeat("é", 200), Details: func(string) []byte { return make([]byte, nodes.MaxDetails+1) },
			State:    func() nodes.State { return nodes.State{Store: "up", Problem: strings.Repeat("p", 5000)} },
			Snapshot: func() []byte { return make([]byte, nodes.MaxSnapshot+1) },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go big.Run(ctx)
		if err := one.Want(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		l := one.Read(t.Context())
		if len(l.Nodes) != 2 || l.Nodes[1].Stale || len(l.Nodes[1].Snapshot) != 0 || len(l.Nodes[1].Problem) > 128 || len(l.Nodes[1].Name) > 128 {
			t.Errorf("Read = %+v, want a node without the large snapshot and with a short name", l.Nodes[1:])
		}
		if got, err := one.Details(t.Context(), "x", []string{big.ID()}); err != nil || len(got) != 0 {
			t.Errorf("Details = %d, %v, want no large payload", len(got), err)
		}
		for key, text := range r.Texts() {
			if strings.HasSuffix(key, big.ID()) && len(text) > 1024 {
				t.Errorf("record of %d bytes, want at most 1024 without its payload", len(text))
			}
		}
		cancel()
		one.stop()
		synctest.Wait()
		for i := range nodes.MaxNodes {
			r.Add("weir:1:{nodes}", fmt.Sprintf(`{"id":"n%d"}`, i))
		}
		late := start(t, r, "late")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if l := late.Read(t.Context()); !strings.Contains(l.Nodes[0].Problem, "full") || len(l.Nodes) != nodes.MaxNodes+1 {
			t.Errorf("one node too many: problem %q, %d nodes", l.Nodes[0].Problem, len(l.Nodes))
		}
		late.stop()
	})
}

// TestSeed checks that all nodes use the seed and the secret of the first, also after Redis lost
// them.
func TestSeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := nodestest.New()
		var seeds [2]atomic.Uint64
		names := [2]*keyid.Names{keyid.New(), keyid.New()}
		first := names[0].Secret()
		for i := range seeds {
			seeds[i].Store(uint64(i + 1))
			x, err := nodes.New(nodes.Config{
				Conn: func() redisstore.Conn { return r }, Seed: uint64(i + 1), UseSeed: seeds[i].Store, Secret: names[i].Secret(), UseSecret: names[i].Use,
				State: func() nodes.State { return nodes.State{} }, Snapshot: func() []byte { return nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			go x.Run(t.Context())
			time.Sleep(2 * time.Second)
		}
		for range 2 {
			synctest.Wait()
			if a, b := seeds[0].Load(), seeds[1].Load(); a != 1 || b != 1 {
				t.Errorf("seeds %d and %d, want that of the first node", a, b)
			}
			if a, b := names[0].Secret(), names[1].Secret(); a != first || b != first {
				t.Errorf("secrets %q and %q, want %q of the first node", a, b, first)
			}
			r.ForgetTexts()
			time.Sleep(2 * time.Second)
		}
	})
}

// TestWithoutRedis checks that the list has this node without a Redis.
func TestWithoutRedis(t *testing.T) {
	c := nodes.Config{State: func() nodes.State { return nodes.State{Store: "memory"} }, Snapshot: func() []byte { return nil }}
	x, err := nodes.New(c)
	if err != nil {
		t.Fatal(err)
	}
	x.Run(t.Context()) // returns at once
	if l := x.Read(t.Context()); l.Err != nil || len(l.Nodes) != 1 || !l.Nodes[0].Self || x.Want(t.Context(), "x") != nil {
		t.Errorf("memory store: %+v, want this node", l)
	}
	c.Conn = func() redisstore.Conn { return nil }
	if x, err = nodes.New(c); err != nil {
		t.Fatal(err)
	}
	if l := x.Read(t.Context()); !errors.Is(l.Err, weir.ErrUnavailable) || len(l.Nodes) != 1 || x.Want(t.Context(), "x") == nil {
		t.Errorf("not connected: %+v, want this node and an error", l)
	}
	if _, err := nodes.New(nodes.Config{}); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("New without State = %v, want ErrInvalid", err)
	}
}
