package e2e_test

import (
	"strconv"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/floodweir/weir"
	weirgoredis "github.com/floodweir/weir/contrib/goredis"
	weirrueidis "github.com/floodweir/weir/contrib/rueidis"
	"github.com/floodweir/weir/e2e/redistest"
)

// TestRedisNewStore makes stores from clients that the program already has.
func TestRedisNewStore(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t).Addr
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	one, err := weirrueidis.NewStore(client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { one.Close() })

	other := goredis.NewClient(&goredis.Options{Addr: addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { other.Close() })
	two, err := weirgoredis.NewStore(other)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { two.Close() })

	limit := weir.MustLimit("3/h")
	for i, store := range []weir.Store{one, two} {
		// The time limit of these stores is short. A reservation can be made again.
		redistest.Await(t, "a reservation", func() error {
			d, err := store.Do(t.Context(), weir.Request{Verb: weir.Reserve, Key: "k", Limit: limit, N: 1, ID: strconv.Itoa(i), TTL: time.Hour})
			if err == nil && (!d.OK || d.Remaining != 2-int64(i)) {
				t.Errorf("store %d: %+v, want %d remaining", i, d, 2-i)
			}
			return err
		})
	}
}
