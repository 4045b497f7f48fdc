package edge_test

import (
	"testing"

	"github.com/floodweir/weir/e2e/nginxtest"
)

// TestSiteTimersDropped checks recovery after nginx dropped timers. It drops those beyond
// lua_max_running_timers, which other Lua code may exhaust, and only logs it. After that,
// Redis is probed again, deferred calls are sent, and slots are renewed.
func TestSiteTimersDropped(t *testing.T) {
	s := nginxtest.Start(t, nginxtest.Config{HTTP: nginxtest.Path(t) + `
  lua_max_running_timers 2;
  lua_shared_dict weir 1m;
  server { listen ADDR; location / { content_by_lua_file DIR/code.lua; } }`})
	got := s.Run(t, `
local release = false
for _ = 1, 2 do
  assert(ngx.timer.at(0, function() while not release do ngx.sleep(0.005) end end))
end
ngx.sleep(0.02)

local b = require("weir.breaker").new(function() return true end, 50)
for _ = 1, 5 do b:fail(0, "gone") end
local store = { run = function(requests)
  local answers = { ok = true }
  for i = 1, #requests do answers[i] = { ok = true } end
  return answers
end }
local queue = require("weir.defer").new(store)
local done = 0
local function ask() queue.run({ {} }, function() done = done + 1 end) end
local renewed = 0
local holds = require("weir.reservations")
local pass = { queue = { run = function() renewed = renewed + 1 end } }
local function keep()
  holds.keep(pass, { policy = {}, requests = { { verb = 6, rule = { lease = 1 }, ttl = 150000, n = 1, key = "k" } } })
end

-- Their timers are dropped.
ask()
keep()
for _ = 1, 120 do
  b:enter()
  ngx.sleep(0.01)
end
ngx.say("before ", done, " ", renewed, " ", tostring(b.open))

release = true
for _ = 1, 500 do
  if done > 0 and renewed > 0 and not b.open then break end
  b:enter()
  if done == 0 then queue.wake() end
  keep()
  ngx.sleep(0.01)
end
ngx.say("after ", done > 0 and "asked" or "lost", " ", renewed > 0 and "renewed" or "lost", " ", tostring(b.open))
holds.finish(pass)
`, "")
	if want := "before 0 0 true\nafter asked renewed false\n"; got != want {
		t.Errorf("got %q, want %q; the log of nginx:\n%s", got, want, s.Log())
	}
}
