package edge_test

import (
	"encoding/json"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/nginxtest"
	"github.com/floodweir/weir/e2e/redistest"
)

// storeSettings is edge.Settings.
type storeSettings struct {
	Redis    storeRedis `json:"redis"`
	Deadline int64      `json:"deadline"`
}

type storeRedis struct {
	Hosts            []string `json:"hosts"`
	Primary          string   `json:"primary,omitempty"`
	Username         string   `json:"username,omitempty"`
	Password         string   `json:"password,omitempty"`
	DB               int      `json:"db,omitempty"`
	SentinelPassword string   `json:"sentinel_password,omitempty"`
	TLS              bool     `json:"tls,omitempty"`
	Verify           bool     `json:"verify,omitempty"`
	ServerName       string   `json:"server_name,omitempty"`
}

// A storeAnswer is the result of a request in Lua.
type storeAnswer struct {
	OK        bool   `json:"ok"`
	Granted   int64  `json:"granted,string"`
	Remaining int64  `json:"remaining,string"`
	Retry     int64  `json:"retry,string"`
	Reset     int64  `json:"reset,string"`
	Delay     int64  `json:"delay,string"`
	At        int64  `json:"at,string"`
	Unknown   bool   `json:"unknown"`
	Err       string `json:"err"`
}

type storeReply struct {
	Answers []storeAnswer `json:"answers"`
	OK      bool          `json:"ok"`
	Err     string        `json:"err"`

	Overload bool `json:"overload"`
}

// A storeServer is an nginx that uses a Redis with the Lua of edge/nginx.
type storeServer struct {
	*nginxtest.Server
	plan *storePlan
}

// storeAt is the content_by_lua_block of a location that runs a call {asks, all}.
const storeAt = `
    client_max_body_size 64m; client_body_buffer_size 64m;
    content_by_lua_block {
      ngx.req.read_body()
      local text = ngx.req.get_body_data()
      ngx.print(require(text:find('"settings"', 1, true) and "storeonce" or "storetest").call(text))
    }`

const storeModule = storeLua + `
local store = require "weir.store"
local M = {}
local plan = read_plan(cjson.decode([==[PLAN]==]))
local s = assert(store.new(cjson.decode([==[SETTINGS]==]), plan))
M.store, M.plan, M.cjson, M.read_asks, M.exact = s, plan, cjson, read_asks, exact
function M.call(text)
  local c = cjson.decode(text)
  local answers, err = s.run(read_asks(plan, c.asks), c.all)
  if not answers then return cjson.encode{ err = err } end
  local list = {}
  for i = 1, #c.asks do list[i] = exact(answers[i]) end
  return cjson.encode{ answers = list, ok = answers.ok }
end
return M
`

// startStore runs an nginx whose location / uses Redis, and /code runs DIR/code.lua. more is
// added to the http block.
func startStore(t *testing.T, settings storeSettings, plan *storePlan, more string) *storeServer {
	t.Helper()
	dir := t.TempDir()
	writeStoreModule(t, dir, settings, plan)
	return &storeServer{plan: plan, Server: nginxtest.Start(t, nginxtest.Config{HTTP: `
  lua_package_path "` + nginxtest.Edge(t) + `/?.lua;` + dir + `/?.lua;;";
  ` + more + `
  server { listen ADDR; location / {` + storeAt + `}
    location /code { client_body_buffer_size 64m; content_by_lua_file DIR/code.lua; } }`})}
}

// run calls store.run.
func (s *storeServer) run(t *testing.T, rs []weir.Request, all bool) storeReply {
	t.Helper()
	text := storePost(t, s.Addr, storeJSON(t, map[string]any{"asks": s.plan.asks(rs), "all": all}))
	var r storeReply
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v in %q; the log of nginx:\n%s", err, text, s.Log())
	}
	return r
}

// TestStoreTakes checks that a limit admits its tokens and that a batch is all or nothing.
func TestStoreTakes(t *testing.T) {
	redis := redistest.Start(t)
	two, one := weir.MustLimit("2/h"), weir.MustLimit("1/h")
	s := startStore(t, storeSettings{Redis: storeRedis{Hosts: []string{redis.Addr}}, Deadline: 5e6}, newStorePlan([]weir.Limit{two, one}), "")
	steps := []struct {
		limits    []weir.Limit
		all, ok   bool
		remaining int64 // of the first
	}{
		{[]weir.Limit{two}, false, true, 1},
		{[]weir.Limit{two, one}, true, true, 0},
		{[]weir.Limit{two, one}, true, false, 0},
		{[]weir.Limit{one}, false, false, 0},
	}
	for i, step := range steps {
		var rs []weir.Request
		for _, l := range step.limits {
			rs = append(rs, weir.Request{Verb: weir.Take, Key: "p|11:203.0.113.7", Limit: l, N: 1})
		}
		r := s.run(t, rs, step.all)
		if r.Err != "" || r.OK != step.ok || len(r.Answers) != len(rs) || r.Answers[0].Remaining != step.remaining {
			t.Errorf("step %d: run = %+v, want ok %v and %d remaining", i, r, step.ok, step.remaining)
		}
	}
	if got := redis.Do(t, "EXISTS", "weir:1:{p%7C11:203.0.113.7}:2/h+burst+2"); got != int64(1) {
		t.Errorf("EXISTS of the state = %v, want 1; keys %v", got, redis.Do(t, "KEYS", "*"))
	}
}
