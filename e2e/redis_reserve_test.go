package e2e_test

import (
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/redisstore"
)

// TestRedisReservationGoesBack: by Redis' own clock too, what nobody settled is there
// again after its TTL, however late that is noticed.
func TestRedisReservationGoesBack(t *testing.T) {
	store := newRedisStore(t, openConn(t, "rueidis", "redis://"+redistest.Start(t).Addr), redisstore.Config{})
	limit := weir.MustLimit("3/h")
	const ttl = 20 * time.Millisecond
	d, err := store.Do(t.Context(), weir.Request{Verb: weir.Reserve, Key: "k", Limit: limit, N: 2, ID: "r", TTL: ttl})
	if err != nil || !d.OK || d.Remaining != 1 {
		t.Fatalf("Reserve(2) = %+v, %v, want OK and 1 left", d, err)
	}
	reserved := d.At
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	other := weir.Request{Verb: weir.Peek, Key: "other", Limit: limit, N: 1} // it tells the time, and touches nothing
	for d.At.Sub(reserved) < 10*ttl {
		<-tick.C
		if d, err = store.Do(t.Context(), other); err != nil {
			t.Fatal(err)
		}
	}
	d, err = store.Do(t.Context(), weir.Request{Verb: weir.Take, Key: "k", Limit: limit, N: 3})
	if err != nil || !d.OK {
		t.Errorf("Take(3) after the TTL = %+v, %v, want OK: the 2 that were reserved are back", d, err)
	}
}
