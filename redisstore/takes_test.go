package redisstore_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/redisstore"
)

// TestTakesOfTwoRules checks that one call of lua/takes.lua has no state under two rules: each writes
// its own text with the state.
func TestTakesOfTwoRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan bool)
		conn := &fakeConn{}
		conn.do = func(_ context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
			<-free
			for i, cmd := range cmds {
				replies[i] = grant(cmd)
			}
		}
		s := newStore(t, conn, redisstore.Config{InFlight: 1})
		for _, limit := range []string{"1/s", "10/s", "20/s"} {
			go func() {
				r := weir.Request{Key: "k", Limit: weir.MustLimit(limit).Named("n"), N: 1}
				if d, err := s.Do(context.Background(), r); err != nil || !d.OK {
					t.Errorf("Do under %s = %+v, %v", limit, d, err)
				}
			}()
			synctest.Wait()
		}
		close(free)
		s.Close()
		if trip := conn.trips[1]; len(trip) != 2 || !trip[0].takes || trip[1].takes || len(trip[0].ns) != 1 || len(trip[1].ns) != 1 {
			t.Errorf("two rules of one state: got %q, want one in a call of lua/takes.lua and one in the general path", conn.asked()[1])
		}
	})
}
