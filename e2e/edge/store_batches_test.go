package edge_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/nginxtest"
)

// takeGroups returns requests of few keys, each group all or none.
func takeGroups(g *rand.Rand, limits []weir.Limit, n int) [][]weir.Request {
	groups := make([][]weir.Request, n)
	for i := range groups {
		for len(groups[i]) == 0 || g.IntN(3) == 0 {
			r := weir.Request{Verb: weir.Take, Key: fmt.Sprint("k", g.IntN(3)), Limit: limits[g.IntN(len(limits))], N: 1 + g.Int64N(3)}
			if g.IntN(60) == 0 {
				r.N = 1 << 55
			}
			groups[i] = append(groups[i], r)
		}
	}
	return groups
}

// takeLimits are limits that lua/takes.lua decides. Tokens take whole µs or not, windows are of both
// kinds, and two limits share their states.
func takeLimits() (out []weir.Limit) {
	for _, text := range []string{"1000/s burst 5", "3000/s burst 7", "7/10ms burst 20", "1000000000000/24h", "5/10ms fixed_window", "6/20ms fixed_window anchor epoch"} {
		out = append(out, weir.MustLimit(text))
	}
	return append(out, weir.MustLimit("2000/s burst 5").Named("a"), weir.MustLimit("4/10ms fixed_window").Named("a"))
}

const storePack = storeLua + `
local takes = require "weir.takes"
local input = cjson.decode(ngx.req.get_body_data())
local plan = read_plan(input.plan)
local out = {}
for i, groups in ipairs(input.cases) do
  local b = takes.new(plan.prefix)
  for _, asks in ipairs(groups) do
    local rs = read_asks(plan, asks)
    if takes.decides(rs) and not b:add(rs) and #b.ops == 0 then b = takes.new(plan.prefix) end
  end
  local keys, args = b:pack()
  for i = 1, #keys do keys[i] = hex(keys[i]) end
  out[i] = { table.concat(keys, " "), hex(args[1]) }
end
ngx.print(cjson.encode(out))
`

// TestStoreBytesTakes checks that takes.lua sends the same bytes as redisstore for requests that
// share a call.
func TestStoreBytesTakes(t *testing.T) {
	t.Parallel()
	g := rand.New(rand.NewPCG(7, 8))
	limits := append(takeLimits(), storeLimits()...)
	plan := newStorePlan(limits)
	var cases [][][]storeAsk
	var want [][2]string
	shared := 0
	for range 150 {
		groups := takeGroups(g, limits[:1+g.IntN(len(limits))], 1+g.IntN(40))
		conn := recordTogether(t, groups)
		if len(conn.takes) != 1 {
			continue
		}
		var asks [][]storeAsk
		for _, rs := range groups {
			asks = append(asks, plan.asks(rs))
		}
		cases = append(cases, asks)
		want = append(want, [2]string{hexes(conn.takes[0].Keys), hexes(conn.takes[0].Args)})
		shared += len(groups)
	}
	text := nginxtest.Lua(t, storePack, storeJSON(t, map[string]any{"plan": plan, "cases": cases}))
	var got [][2]string
	if err := json.Unmarshal([]byte(text), &got); err != nil || len(got) != len(want) || len(want) < 100 {
		t.Fatalf("%v; %d cases of %d; %.300s", err, len(got), len(want), text)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("case %d: %s:\n  Lua %v\n  Go  %v", i, storeJSON(t, cases[i]), got[i], want[i])
		}
	}
	t.Logf("%d cases, %d groups", len(cases), shared)
}

// concurrently runs groups of requests at the same time on one worker, after others of the key warm
// that start a timer for calls.
func (s *storeServer) concurrently(t *testing.T, groups [][]weir.Request) (out []storeReply) {
	t.Helper()
	var asks [][]storeAsk
	for _, rs := range groups {
		asks = append(asks, s.plan.asks(rs))
	}
	text := s.code(t, storeThreads, storeJSON(t, asks))
	if err := json.Unmarshal([]byte(text), &out); err != nil || len(out) != len(groups) {
		t.Fatalf("%v in %.300q; the log of nginx:\n%s", err, text, s.Log())
	}
	return out
}

const storeThreads = `
ngx.req.read_body()
local h = require "storetest"
local cjson = require("cjson").new()
local asks, threads, out = cjson.decode(ngx.req.get_body_data()), {}, {}
local function warm() h.store.run({ { key = "warm", rule = h.plan.rules[1], verb = 0, n = 1 } }, true) end
while ngx.timer.running_count() == 0 do
  local one, two = ngx.thread.spawn(warm), ngx.thread.spawn(warm)
  ngx.thread.wait(one)
  ngx.thread.wait(two)
end
for i = 1, #asks do
  local requests = h.read_asks(h.plan, asks[i])
  threads[i] = ngx.thread.spawn(function()
    local answers, err, overload = h.store.run(requests, true)
    out[i] = { err = err, overload = overload }
    if not answers then return end
    out[i].ok, out[i].answers = answers.ok, {}
    for k = 1, #requests do out[i].answers[k] = h.exact(answers[k]) end
  end)
end
for i = 1, #asks do assert(ngx.thread.wait(threads[i])) end
ngx.print(cjson.encode(out))`

// TestStoreBatches has many requests at the same time on one worker. They share calls of Redis, and
// get the decisions of a memory store that decides them in the order of their instants.
func TestStoreBatches(t *testing.T) {
	t.Parallel()
	limits := takeLimits()
	x := newStoreTwins(t, limits)
	g := rand.New(rand.NewPCG(9, 10))
	total := 0
	for round := range 120 {
		groups := takeGroups(g, limits, 40)
		for i, rs := range groups { // a state only once in a group, or the general path decides
			seen := map[string]bool{}
			groups[i] = slices.DeleteFunc(rs, func(r weir.Request) bool {
				state := r.Key + r.Limit.Spec().State
				defer func() { seen[state] = true }()
				return seen[state]
			})
		}
		got := x.lua.concurrently(t, groups)
		order := make([]int, len(groups))
		for i := range order {
			if order[i] = i; got[i].Err != "" || len(got[i].Answers) != len(groups[i]) {
				t.Fatalf("round %d, group %d: %+v", round, i, got[i])
			}
		}
		slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(got[i].Answers[0].At, got[j].Answers[0].At) })
		for _, i := range order {
			x.now.Store(got[i].Answers[0].At)
			want := make([]weir.Decision, len(groups[i]))
			ok, err := x.model.DoAll(t.Context(), groups[i], want)
			if err != nil || ok != got[i].OK {
				t.Fatalf("round %d, group %d: ok = %v, want %v, %v", round, i, got[i].OK, ok, err)
			}
			for k := range want {
				if got[i].Answers[k].format() != format(want[k]) {
					t.Fatalf("round %d, group %d, request %d: %s, want %s: %+v", round, i, k, got[i].Answers[k].format(), format(want[k]), groups[i])
				}
			}
		}
		total += len(groups)
	}
	stats := x.redis.Do(t, "INFO", "commandstats").(string)
	if n := storeInfo(strings.ReplaceAll(stats, "calls=", "calls:"), "cmdstat_evalsha:calls"); n == 0 || n > total/2 {
		t.Errorf("%d calls for %d groups, want at most half", n, total)
	}
}

// TestStoreBatchTimers checks that timers replace each other while there is work, at most three at a
// time, and end after it.
func TestStoreBatchTimers(t *testing.T) {
	x := newStoreTwins(t, []weir.Limit{weir.MustLimit("1000000/h")})
	got := x.lua.code(t, `
local h = require "storetest"
local pending, running = ngx.timer.pending_count, ngx.timer.running_count
local failed, most = 0, 0
local function wave()
  local threads = {}
  for i = 1, 3 do
    threads[i] = ngx.thread.spawn(function()
      local answers = h.store.run({ { key = "k", rule = h.plan.rules[1], verb = 0, n = 1 } }, true)
      if not answers or not answers.ok then failed = failed + 1 end
    end)
  end
  for i = 1, 3 do ngx.thread.wait(threads[i]) end
  most = math.max(most, running())
end
for i = 1, 1200 do wave() end
local before = running()
for i = 1, 200 do
  if running() + pending() == 0 then break end
  ngx.sleep(0.05)
end
ngx.print(failed, " ", before > 0 and most <= 3, " ", running() + pending())`, "")
	if want := "0 true 0"; got != want {
		t.Errorf("got %q, want %q; the log of nginx:\n%s", got, want, x.lua.Log())
	}
	if n := storeInfo(strings.ReplaceAll(x.redis.Do(t, "INFO", "commandstats").(string), "calls=", "calls:"), "cmdstat_evalsha:calls"); n > 2600 {
		t.Errorf("%d calls for 1200 waves of 3 requests", n)
	}
}

// TestStoreBatchHandover checks that a timer that has another take its place leaves no request to an
// idle timer that nothing wakes. Idle timers wait for an hour here.
func TestStoreBatchHandover(t *testing.T) {
	x := newStoreTwins(t, []weir.Limit{weir.MustLimit("1000000/h")})
	got := x.lua.code(t, `
local semaphore = require "ngx.semaphore"
local wait = semaphore.wait
function semaphore.wait(s, seconds) return wait(s, seconds == 0.1 and 3600 or seconds) end
local h = require "storetest"
local function take() return h.store.run({ { key = "k", rule = h.plan.rules[1], verb = 0, n = 1 } }, true) end
while ngx.timer.running_count() == 0 do
  local one, two = ngx.thread.spawn(take), ngx.thread.spawn(take)
  ngx.thread.wait(one)
  ngx.thread.wait(two)
end
for i = 1, 1200 do
  local answers, err = take()
  if not answers then return ngx.print("request ", i, ": ", err) end
end
ngx.print("all decided")`, "")
	if want := "all decided"; got != want {
		t.Errorf("got %q, want %q; the log of nginx:\n%s", got, want, x.lua.Log())
	}
}

// TestStoreBatchSlow checks that requests do not wait for calls that Redis answers late.
func TestStoreBatchSlow(t *testing.T) {
	hold := make(chan struct{})
	var held atomic.Int32
	fake := startStoreFake(t, func(command []string) (string, bool) {
		if !strings.Contains(command[3], "warm") {
			held.Add(1)
			<-hold
		}
		return storeGrant, false
	})
	limit := weir.MustLimit(onceLimit)
	s := startStore(t, storeSettings{Redis: storeRedis{Hosts: []string{fake.addr}}, Deadline: 20e6}, newStorePlan([]weir.Limit{limit}), "")
	group := func(key string) [][]weir.Request {
		return [][]weir.Request{{{Verb: weir.Take, Key: key, Limit: limit, N: 1}}}
	}
	s.concurrently(t, group("warm"))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(hold)
	for i := range 6 {
		wg.Go(func() {
			if r := s.concurrently(t, group(fmt.Sprint(i)))[0]; r.Err != "" || !r.OK {
				t.Errorf("request %d: %+v", i, r)
			}
		})
		await(t, "a call for each", func() bool { return held.Load() == int32(i+1) })
	}
}

// TestStoreBatchFull checks that more requests than may wait are refused as an overload.
func TestStoreBatchFull(t *testing.T) {
	limit := weir.MustLimit("1000000/h")
	x := newStoreTwins(t, []weir.Limit{limit})
	groups := make([][]weir.Request, 1300)
	for i := range groups {
		groups[i] = []weir.Request{{Verb: weir.Take, Key: "k", Limit: limit, N: 1}}
	}
	decided, refused := 0, 0
	for _, r := range x.lua.concurrently(t, groups) {
		if r.OK {
			decided++
		} else if strings.Contains(r.Err, "too many waiting") && r.Overload {
			refused++
		}
	}
	if decided != 1024 || refused != len(groups)-1024 {
		t.Errorf("%d decided and %d refused of %d, want 1024 decided", decided, refused, len(groups))
	}
}

// TestStoreBatchDrop checks that requests that no longer wait are not charged.
func TestStoreBatchDrop(t *testing.T) {
	x := newStoreTwins(t, []weir.Limit{weir.MustLimit(onceLimit)})
	got := x.lua.code(t, `
local h = require "storetest"
local takes = require "weir.takes"
local function take(key) return { { key = key, rule = h.plan.rules[1], verb = 0, n = 1 } } end
local b = takes.new(h.plan.prefix)
local a, c, d = b:add(take("k")), b:add(take("k")), b:add(take("other"))
a.gone, d.gone = true, true
b:drop()
local keys, args = b:pack()
local deadline = require("weir.clock").now() + 5000
local conn = assert(h.store.redis:open(deadline))
local reply = conn:ask(deadline, "eval", h.plan.script, #keys, keys[1], keys[2], args[1])
ngx.print(tostring((b:read(reply))), " ", #b.ops, " ", c.answers[1].remaining, " ", tostring(a.answers), " ", tostring(d.answers))`, "")
	if want := "nil 1 999 nil nil"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if keys := fmt.Sprint(x.redis.Do(t, "KEYS", "*")); strings.Contains(keys, "other") || !strings.Contains(keys, "{k}") {
		t.Errorf("keys = %s, want that of k", keys)
	}
}

// TestStoreBatchSilence checks the requests of a batch while Redis does not answer, and after that.
func TestStoreBatchSilence(t *testing.T) {
	var silent atomic.Int32
	fake := startStoreFake(t, func(command []string) (string, bool) {
		if strings.Contains(command[3], "warm") {
			return storeGrant, false
		}
		silent.Add(1)
		return "", false
	})
	limit := weir.MustLimit(onceLimit)
	settings := storeSettings{Redis: storeRedis{Hosts: []string{fake.addr}}, Deadline: 300_000}
	s := startStore(t, settings, newStorePlan([]weir.Limit{limit}), "")
	groups := make([][]weir.Request, 4) // fewer failures than open the breaker
	for i := range groups {
		groups[i] = []weir.Request{{Verb: weir.Take, Key: fmt.Sprint(i), Limit: limit, N: 1}}
	}
	began := time.Now()
	for i, r := range s.concurrently(t, groups) {
		if !strings.Contains(r.Err, "timeout") {
			t.Errorf("request %d: %+v, want a timeout", i, r)
		}
	}
	if took := time.Since(began); took < 290*time.Millisecond || took > 10*time.Second {
		t.Errorf("timeouts after %v, want one deadline", took)
	}
	if n := silent.Load(); n != 1 {
		t.Errorf("%d calls, want one for all", n)
	}
	fake.set(func([]string) (string, bool) { return storeGrant, false })
	if r := s.run(t, groups[0], true); r.Err != "" || !r.OK {
		t.Errorf("after that: %+v; %s", r, s.Log())
	}
}
