package edge_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/nginxtest"
	"github.com/floodweir/weir/e2e/redistest"
)

// TestStoreLater checks that deferred requests are sent in order, many in one call, and that
// each callback gets its own result.
func TestStoreLater(t *testing.T) {
	code := storeLua + `
local defer = require "weir.defer"
local rule = { limit = "1/s", suffix = "1/s", algorithm = "token_bucket", params = { 1 }, capacity = 1 }
local function take(key) return { key = key, rule = rule, verb = 0, n = 1 } end
local calls, store = {}, {}
local asleep, broken, odd = true, nil, {}
function store.run(requests, all)
  while asleep do ngx.sleep(0.001) end
  local keys = {}
  local answers = { ok = true }
  for i, r in ipairs(requests) do
    keys[i] = r.key
    answers[i] = { ok = r.key ~= "no", key = r.key, err = odd[r.key] }
    answers.ok = answers.ok and answers[i].ok
  end
  calls[#calls + 1] = (all and "all:" or "each:") .. (#keys > 8 and #keys or table.concat(keys, ","))
  if broken == "error" then error("thrown") end
  if broken then return nil, broken end
  return answers
end
local queue = defer.new(store)
local results = {}
local function result(name)
  return function(answers, err)
    local text = err or ""
    for _, a in ipairs(answers or {}) do text = text .. a.key .. (a.ok and "+" or "-") end
    results[#results + 1] = name .. "=" .. text
  end
end
local function settle()
  asleep = false
  for i = 1, 2000 do
    if queue.waiting() == 0 then break end
    ngx.sleep(0.001)
  end
  ngx.sleep(0.02)
  ngx.say(table.concat(calls, " "), " | ", table.concat(results, " "), " | ", queue.waiting(), " ", queue.dropped)
  calls, results, asleep = {}, {}, true
end
queue.run({ take("a") }, result("1"))
queue.run({ take("b"), take("no") }, result("2"))
queue.run({ take("c"), take("d"), all = true }, result("3"))
queue.run({ take("e") })
queue.run({ take("f") }, function() error("a done that fails") end)
queue.run({ take("g") }, result("4"))
settle()
broken = "away"
queue.run({ take("a") }, result("1"))
queue.run({ take("b") }, result("2"))
settle()
broken = "error"
queue.run({ take("a") }, result("1"))
settle()
broken, odd = nil, { b = "BADSTATE" }
queue.run({ take("a") }, result("1"))
queue.run({ take("b") }, result("2"))
settle()
odd = {}
for i = 1, 4096 do queue.run({ take("k") }) end
queue.run({ take("late") }, result("late"))
settle()
for i = 1, 600 do queue.run({ take("k"), all = true }) end
settle()
`
	got := nginxtest.Lua(t, code, "")
	many := strings.TrimSuffix(strings.Repeat("each:128 ", 32), " ")
	want := []string{
		"each:a,b,no all:c,d each:e,f,g | 1=a+ 2=b+no- 3=c+d+ 4=g+ | 0 0",
		"each:a,b | 1=away 2=away | 0 0",
	}
	lines := strings.Split(got, "\n")
	for i, w := range want {
		if i >= len(lines) || lines[i] != w {
			t.Fatalf("line %d: %q, want %q; all:\n%s", i+1, lines[min(i, len(lines)-1)], w, got)
		}
	}
	together := strings.TrimSuffix(strings.Repeat("all:k ", 600), " ") // more than one timer sends
	if len(lines) < 6 || lines[5] != together+" |  | 0 1" || !strings.HasPrefix(lines[2], "each:a | 1=") || !strings.Contains(lines[2], "thrown | 0 0") ||
		lines[3] != "each:a,b | 1=a+ 2=BADSTATE | 0 0" ||
		lines[4] != many+" | late=weir: the queue of calls after the response is full: 4096 | 0 1" {
		t.Errorf("got\n%s", got)
	}
}

// TestStoreLaterEnds checks that a worker sends its deferred requests before it exits.
func TestStoreLaterEnds(t *testing.T) {
	redis := redistest.Start(t)
	limit := weir.MustLimit("1000/h")
	s := startStore(t, storeSettings{Redis: storeRedis{Hosts: []string{redis.Addr}}, Deadline: 5e6}, newStorePlan([]weir.Limit{limit}), "")
	// A worker that is stopped while it runs this sends the request when it ends.
	s.code(t, `
local h = require "storetest"
local queue = require("weir.defer").new(h.store)
for i = 1, 500 do queue.run({ { key = "k", rule = h.plan.rules[1], verb = 0, n = 1 } }) end
os.execute("kill -QUIT " .. ngx.worker.pid())
ngx.update_time()
ngx.print(queue.waiting())`, "")
	var got storeAnswer
	await(t, "500 taken", func() bool {
		r := s.run(t, []weir.Request{{Verb: weir.Peek, Key: "k", Limit: limit, N: 1}}, false)
		if r.Err != "" {
			t.Fatal(r.Err)
		}
		got = r.Answers[0]
		return got.Remaining == 500
	})
	if b, _ := json.Marshal(got); !got.OK {
		t.Errorf("%s", b)
	}
}
