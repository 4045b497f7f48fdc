package edge_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/nginxtest"
	"github.com/floodweir/weir/redisstore"
)

// A storeRecorder responds to every request with a code and records the commands of the general
// path, which Lua shares. It decides no Takes of lua/takes.lua, so that they take the general path.
type storeRecorder struct {
	code    func(command int) int64
	release chan struct{} // nil: responds at once

	mu    sync.Mutex
	cmds  []redisstore.Command
	takes []redisstore.Command // of lua/takes.lua
}

func (*storeRecorder) Cluster() bool { return false }

func (c *storeRecorder) Do(_ context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
	if c.release != nil {
		<-c.release
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, cmd := range cmds {
		if len(cmd.Args) == 1 {
			c.takes = append(c.takes, cmd)
			replies[i].Items = []string{string(undecided)}
			continue
		}
		c.cmds = append(c.cmds, cmd)
		item := make([]byte, 56)
		binary.LittleEndian.PutUint64(item, uint64(c.code(len(c.cmds))))
		for range (len(cmd.Args[0]) - 24) / 40 {
			replies[i].Items = append(replies[i].Items, string(item))
		}
	}
}

// undecided is the reply of lua/takes.lua that leaves all units to the general path.
var undecided = append(bytes.Repeat([]byte{0}, 8), "\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00"...)

// A storeCase holds the commands of redisstore for requests: the first ones, those after the
// script asked for the hold keys, and those of the same requests later.
type storeCase struct {
	Asks     []storeAsk  `json:"asks"`
	All      bool        `json:"all"`
	Commands [][2]string `json:"-"` // KEYS and ARGV of each, in hexadecimal digits
	Holds    bool        `json:"holds"`
}

func hexes(texts []string) string {
	out := make([]string, len(texts))
	for i, s := range texts {
		out[i] = hex.EncodeToString([]byte(s))
	}
	return strings.Join(out, " ")
}

// storeVerbs are the verbs that the Lua uses, and Peek.
var storeVerbs = []weir.Verb{weir.Take, weir.Peek, weir.Charge, weir.Reserve, weir.Commit, weir.Cancel}

// A storeGenerator makes random requests.
type storeGenerator struct {
	*rand.Rand
	limits []weir.Limit
}

func (g storeGenerator) pick(texts ...string) string { return texts[g.IntN(len(texts))] }

func (g storeGenerator) key() string {
	switch g.IntN(8) {
	case 0: // any bytes
		b := make([]byte, 1+g.IntN(130))
		for i := range b {
			b[i] = byte(g.Uint32())
		}
		return string(b)
	case 1: // about the longest key that is not hashed
		return strings.Repeat("k", 98+g.IntN(5))
	case 2:
		return strings.Repeat(g.pick("k", "|", "ü"), 30+g.IntN(5)) + g.pick("", "x", "xyz")
	case 3:
		return g.pick("p|3:für", "p|6:東京", "ключ", "a b+c%20", "{tag}:x", "#"+strings.Repeat("0", 64))
	}
	return fmt.Sprintf("per-client|11:203.0.113.%d", g.IntN(9))
}

func (g storeGenerator) n() int64 {
	switch g.IntN(6) {
	case 0:
		return 1<<53 - 1 - g.Int64N(3)
	case 1:
		return 1 << (53 + g.IntN(9)) // exact in a double
	case 2:
		return 0
	}
	return g.Int64N(50)
}

func (g storeGenerator) request() weir.Request {
	r := weir.Request{Verb: storeVerbs[g.IntN(len(storeVerbs))], Key: g.key(), Limit: g.limits[g.IntN(len(g.limits))], N: g.n()}
	if g.IntN(3) > 0 {
		r.Verb = weir.Take
	}
	if r.Verb >= weir.Reserve {
		r.ID = g.pick("a", "b", "r-"+strings.Repeat("9", 250), "ü\x00\xff", fmt.Sprint(g.Uint64()))
	}
	if r.Verb == weir.Reserve {
		r.N, r.TTL = max(1, r.N), time.Duration(1+g.Int64N(1e9))*time.Microsecond
	}
	return r
}

// storeTexts are limits of every algorithm.
var storeTexts = []string{
	"3/s", "3/s burst 5", "5/m burst 7", "3/s burst 5 interval", "4/10s interval anchor epoch", "3/s burst 5 initial 2",
	"4/10s burst 6 interval initial 0", "5/s warmup 3s", "3/s leaky_bucket burst 4", "4/s leaky_bucket burst 6 queue",
	"5/s leaky_bucket burst 6 delay 2", "3/s leaky_bucket burst 4 nginx", "90/m leaky_bucket burst 5 delay 2 nginx",
	"5/m fixed_window", "5/s fixed_window anchor epoch", "6/s sliding_window", "6/s sliding_window segments 4 weighted", "6/s sliding_window segments 1 weighted",
	"5/s sliding_log", "4 concurrency lease 30s", "4 concurrency",
}

func storeLimits() (out []weir.Limit) {
	for _, text := range storeTexts {
		out = append(out, weir.MustLimit(text))
	}
	return out
}

// record returns the commands of redisstore for one request or for a batch.
func record(t *testing.T, plan *storePlan, rs []weir.Request, all, holds bool) storeCase {
	t.Helper()
	c := storeCase{Asks: plan.asks(rs), All: all, Holds: holds}
	conn := &storeRecorder{code: func(n int) int64 {
		if holds && n == 1 {
			return 3
		}
		return 1
	}}
	s, err := redisstore.New(conn, redisstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ask := func() error {
		if all {
			_, err := s.DoAll(t.Context(), rs, make([]weir.Decision, len(rs)))
			return err
		}
		_, err := s.Do(t.Context(), rs[0])
		return err
	}
	for range 2 {
		if err := ask(); err != nil {
			t.Fatalf("%+v: %v", rs, err)
		}
		if !holds {
			break
		}
	}
	for _, cmd := range conn.cmds {
		c.Commands = append(c.Commands, [2]string{hexes(cmd.Keys), hexes(cmd.Args)})
	}
	return c
}

// recordEach returns the command of redisstore for requests that share a round trip.
func recordEach(t *testing.T, plan *storePlan, rs []weir.Request) storeCase {
	t.Helper()
	groups := make([][]weir.Request, len(rs))
	for i := range rs {
		groups[i] = rs[i : i+1]
	}
	cmd := recordTogether(t, groups).cmds[1]
	return storeCase{Asks: plan.asks(rs), Commands: [][2]string{{hexes(cmd.Keys), hexes(cmd.Args)}}}
}

// recordTogether returns what redisstore sends for a Peek, and then for groups of requests, each
// all or none, that share a round trip.
func recordTogether(t *testing.T, groups [][]weir.Request) (conn *storeRecorder) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		conn = &storeRecorder{code: func(int) int64 { return 1 }, release: make(chan struct{})}
		s, err := redisstore.New(conn, redisstore.Config{InFlight: 1, MaxBatch: 1024})
		if err != nil {
			t.Fatal(err)
		}
		ask := func(rs []weir.Request) {
			if len(rs) == 1 {
				s.Do(context.Background(), rs[0])
			} else {
				s.DoAll(context.Background(), rs, make([]weir.Decision, len(rs)))
			}
		}
		go ask([]weir.Request{{Verb: weir.Peek, Key: "first", Limit: groups[0][0].Limit, N: 1}}) // is one command
		synctest.Wait()
		for _, rs := range groups {
			go ask(rs)
			synctest.Wait()
		}
		close(conn.release)
		synctest.Wait()
	})
	return conn
}

const storeBuild = storeLua + `
local call = require "weir.call"
local input = cjson.decode(ngx.req.get_body_data())
local plan = read_plan(input.plan)
local function one(asks, c, declare)
  local keys, args = call.build(asks, c.all, plan.prefix, declare)
  if not keys then return "error: " .. args end
  for i = 1, #keys do keys[i] = hex(keys[i]) end
  for i = 1, #args do args[i] = hex(args[i]) end
  return { table.concat(keys, " "), table.concat(args, " ") }
end
local out = {}
for i, c in ipairs(input.cases) do
  for _, r in ipairs(plan.rules) do r.holds = nil end
  local asks = read_asks(plan, c.asks)
  local o = { one(asks, c) }
  if c.holds then
    o[2] = one(asks, c, true)
    for _, r in ipairs(asks) do r.rule.holds = true end
    o[3] = one(asks, c)
  end
  out[i] = o
end
ngx.print(cjson.encode(out))
`

func compareBytes(t *testing.T, plan *storePlan, cases []storeCase) {
	t.Helper()
	text := nginxtest.Lua(t, storeBuild, storeJSON(t, map[string]any{"plan": plan, "cases": cases}))
	var got [][][2]string
	if err := json.Unmarshal([]byte(text), &got); err != nil || len(got) != len(cases) {
		t.Fatalf("%v; %d cases of %d; %.300s", err, len(got), len(cases), text)
	}
	bad := 0
	for i, c := range cases {
		for k := range c.Commands {
			if k >= len(got[i]) || got[i][k] != c.Commands[k] {
				t.Errorf("case %d, command %d of %s:\n  Lua %v\n  Go  %v", i, k, storeJSON(t, c), got[i], c.Commands[k])
				if bad++; bad > 3 {
					t.FailNow()
				}
			}
		}
	}
}

// TestStoreBytes checks that call.lua sends the same bytes as redisstore.
func TestStoreBytes(t *testing.T) {
	t.Parallel()
	g := storeGenerator{rand.New(rand.NewPCG(1, 2)), storeLimits()}
	plan := newStorePlan(g.limits)
	var cases []storeCase
	commands := 0
	for i := range 3000 {
		all := i%2 == 0
		rs := []weir.Request{g.request()}
		for all && g.IntN(3) > 0 {
			r := g.request()
			if g.IntN(2) == 0 {
				r.Key = rs[0].Key
			}
			rs = append(rs, r)
			if len(rs) > 20 {
				break
			}
		}
		cases = append(cases, record(t, plan, rs, all, g.IntN(4) == 0))
		commands += len(cases[i].Commands)
	}
	compareBytes(t, plan, cases)
	t.Logf("%d cases, %d commands", len(cases), commands)
}

// TestStoreBytesEach checks the same for requests that share a call but are decided
// separately. redisstore has another call for Takes, so these are TakeUpTos.
func TestStoreBytesEach(t *testing.T) {
	t.Parallel()
	g := storeGenerator{rand.New(rand.NewPCG(3, 4)), storeLimits()}
	plan := newStorePlan(g.limits)
	var cases []storeCase
	for i := range 120 {
		var rs []weir.Request
		for range 1 + g.IntN(40+i%2*400) {
			r := g.request()
			if r.Verb == weir.Take {
				r.Verb = weir.TakeUpTo
			}
			rs = append(rs, r)
		}
		cases = append(cases, recordEach(t, plan, rs))
	}
	compareBytes(t, plan, cases)
}
