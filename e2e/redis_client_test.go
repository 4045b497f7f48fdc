package e2e_test

import (
	"testing"

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
	if d := mustTake(t, one, "k", limit, 1); !d.OK || d.Remaining != 2 {
		t.Errorf("rueidis: %+v, want 2 remaining", d)
	}
	if d := mustTake(t, two, "k", limit, 1); !d.OK || d.Remaining != 1 {
		t.Errorf("goredis: %+v, want 1 remaining", d)
	}
}
