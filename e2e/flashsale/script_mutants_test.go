package flashsale_test

import (
	"fmt"
	"testing"

	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/flashsale/redisinventory"
	"github.com/floodweir/weir/flashsale/sale"
)

// methodAsKey is a published script of real shops: its first key is the name of a method, and it
// builds other keys from its arguments.
const methodAsKey = `
if KEYS[1] == 'setToken' then
  local stock = tonumber(redis.call('GET', 'seckill:' .. ARGV[1]) or '0')
  if stock <= 0 then return 4 end
  redis.call('DECR', 'seckill:' .. ARGV[1])
  redis.call('HSET', 'queue:' .. ARGV[1], ARGV[2], ARGV[3])
  return 1
end
return -1`

// TestMethodAsKey runs the script in a Cluster, where it fails for most sales, and the
// inventory, which fails for none.
func TestMethodAsKey(t *testing.T) {
	t.Parallel()
	client := redisClient(t, "redis+cluster://"+redistest.StartCluster(t).Addrs())
	inventory := redisInventory(t, client, redisinventory.Config{})
	broken := 0
	for i := range 8 {
		id := fmt.Sprint("sale", i)
		ctx := t.Context()
		if err := client.Do(ctx, client.B().Set().Key("seckill:"+id).Value("10").Build()).Error(); err != nil {
			t.Fatal(err)
		}
		n, err := client.Do(ctx, client.B().Eval().Script(methodAsKey).Numkeys(1).Key("setToken").Arg(id, "ann", "token").Build()).AsInt64()
		if err != nil || n != 1 {
			broken++
		}
		if err := inventory.Open(ctx, redisOpening(id, 1, 10)); err != nil {
			t.Errorf("Open of %s: %v", id, err)
		}
		if _, err := inventory.Join(ctx, sale.JoinRequest{Sale: id, Epoch: 1, User: "ann", Ticket: "ticket-of-ann-0001"}); err != nil {
			t.Errorf("Join of %s: %v", id, err)
		}
	}
	t.Logf("the method as a key: fails for %d of 8 sales", broken)
	if broken == 0 {
		t.Error("the script failed for no sale, want some")
	}
}

// TestZeroIsTrue runs a script that uses the reply of SISMEMBER as a condition. It refuses every
// user, since 0 is true in Lua.
func TestZeroIsTrue(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const mutant = `if redis.call('SISMEMBER', KEYS[1], ARGV[1]) then return 'per_user' end redis.call('SADD', KEYS[1], ARGV[1]) return ''`
	if got := s.Do(t, "EVAL", mutant, 1, "bought", "ann"); got != "per_user" {
		t.Errorf("the first buyer = %q, want refused", got)
	}
	inventory := redisInventory(t, redisClient(t, "redis://"+s.Addr), redisinventory.Config{})
	if err := inventory.Open(t.Context(), redisOpening("lua", 1, 10)); err != nil {
		t.Fatal(err)
	}
	a := redisAdmitted(t, inventory, "lua", 1)
	if o, err := inventory.Reserve(t.Context(), a); err != nil || o.Reason != sale.OK {
		t.Errorf("the first buyer with the inventory: %+v, %v", o, err)
	}
}
