package edge_test

import (
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
)

// TestStoreLate checks that a reply after the deadline is not used for another request.
func TestStoreLate(t *testing.T) {
	s := startStoreOnce(t, "")
	late := make(chan struct{})
	first := true
	fake := startStoreFake(t, nil)
	fake.set(func([]string) (string, bool) {
		if first {
			first = false
			<-late
			return storeGrant, false
		}
		return storeDenial, false
	})
	settings := storeSettings{Redis: storeRedis{Hosts: []string{fake.addr}}, Deadline: 1_000_000}
	if r := s.ask(t, settings, true, "k"); !strings.Contains(r.Err, "timeout") {
		t.Fatalf("first: %+v", r)
	}
	close(late)
	for range 3 {
		if r := s.ask(t, settings, true, "k"); r.Err != "" || r.OK {
			t.Errorf("then: %+v, want a denial", r)
		}
	}
}

// TestStoreEach checks requests that share a call but are decided separately. Some have to be
// sent again with their hold keys, and an error of one does not affect the others.
func TestStoreEach(t *testing.T) {
	one, ten := weir.MustLimit("1/h"), weir.MustLimit("10/h")
	x := newStoreTwins(t, []weir.Limit{one, ten})
	take := func(key string, l weir.Limit) weir.Request {
		return weir.Request{Verb: weir.Take, Key: key, Limit: l, N: 1}
	}
	reserve := weir.Request{Verb: weir.Reserve, Key: "held", Limit: ten, N: 5, ID: "r", TTL: 20 * time.Millisecond}
	if r := x.lua.run(t, []weir.Request{reserve}, false); r.Err != "" || !r.OK {
		t.Fatalf("reserve: %+v", r)
	}
	// A new worker does not know which limits have hold keys.
	x.lua.Server.Stop()
	x.lua = startStore(t, storeSettings{Redis: storeRedis{Hosts: []string{x.redis.Addr}}, Deadline: 5e6}, x.lua.plan, "")
	x.redis.Do(t, "SET", "weir:1:{odd}:10/h+burst+10", "nonsense")
	r := x.lua.run(t, []weir.Request{take("a", one), take("a", one), take("held", ten), take("odd", ten), take("b", ten)}, false)
	if r.Err != "" || len(r.Answers) != 5 || r.OK {
		t.Fatalf("run = %+v", r)
	}
	for i, want := range []bool{true, false, true, false, true} {
		if a := r.Answers[i]; a.OK != want || (a.Err != "") != (i == 3) {
			t.Errorf("request %d = %+v, want ok %v", i, a, want)
		}
	}
	if a := r.Answers[4]; a.Remaining != 9 {
		t.Errorf("b = %+v, want it charged once", a)
	}
	if r := x.lua.run(t, []weir.Request{take("odd", ten), take("b", ten)}, true); !strings.Contains(r.Err, "BADSTATE") {
		t.Errorf("together: %+v", r)
	}
	if r := x.lua.run(t, []weir.Request{take("b", ten)}, true); r.Answers[0].Remaining != 8 {
		t.Errorf("b = %+v, want it not charged with one that cannot be decided", r)
	}
}
