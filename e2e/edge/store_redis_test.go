package edge_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/nginxtest"
	"github.com/floodweir/weir/e2e/redistest"
)

// storeOnce decides requests with the settings of the call. It makes a new store, unless the
// call wants one made earlier with the same settings.
const storeOnce = `
local h = require "storetest"
local M = { stores = {} }
function M.call(text)
  local c = h.cjson.decode(text)
  local settings = h.cjson.encode(c.settings)
  local s, err = c.again and M.stores[settings], nil
  if not s then s, err = require("weir.store").new(c.settings, h.plan) end
  if not s then return h.cjson.encode{ err = err, took = 0 } end
  M.stores[settings] = s
  ngx.update_time()
  local started = ngx.now()
  local answers, err = s.run(h.read_asks(h.plan, c.asks), c.all)
  ngx.update_time()
  local took = math.floor((ngx.now() - started) * 1000 + 0.5)
  if not answers then return h.cjson.encode{ err = err, took = took } end
  local list = {}
  for i = 1, #c.asks do list[i] = h.exact(answers[i]) end
  return h.cjson.encode{ answers = list, ok = answers.ok, took = took }
end
return M
`

// onceLimit is the limit of a storeOnceServer: no token returns during a test.
const onceLimit = "1000/30d"

// A storeOnceServer uses the settings of each call.
type storeOnceServer struct{ *storeServer }

func startStoreOnce(t *testing.T, more string) storeOnceServer {
	t.Helper()
	limits := []weir.Limit{weir.MustLimit(onceLimit), weir.MustLimit("10/h fixed_window")}
	return storeOnceServer{startStore(t, storeSettings{Redis: storeRedis{Hosts: []string{"127.0.0.1:1"}}, Deadline: 1}, newStorePlan(limits), more)}
}

type storeOnceReply struct {
	storeReply
	Took int64 `json:"took"` // ms
}

func (s storeOnceServer) ask(t *testing.T, settings storeSettings, again bool, key string) storeOnceReply {
	t.Helper()
	return s.askVerb(t, settings, again, weir.Take, key)
}

// askVerb asks with another verb than Take, which takes the general path.
func (s storeOnceServer) askVerb(t *testing.T, settings storeSettings, again bool, verb weir.Verb, key string) storeOnceReply {
	t.Helper()
	if settings.Deadline == 0 {
		settings.Deadline = 5e6
	}
	r := weir.Request{Verb: verb, Key: key, Limit: weir.MustLimit(onceLimit), N: 1}
	text := storePost(t, s.Addr, storeJSON(t, map[string]any{"settings": settings, "asks": s.plan.asks([]weir.Request{r}), "again": again}))
	var got storeOnceReply
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v in %q; the log of nginx:\n%s", err, text, s.Log())
	}
	return got
}

// TestStoreAuth checks a user, a password and a database. They are sent on new connections
// only, and connections are not shared between users or databases.
func TestStoreAuth(t *testing.T) {
	redis := redistest.Start(t, "user weir on >secret ~weir:1:* -@all +ping +evalsha +eval +time +get +mget +exists +set +del +select", "user odd on >pw ~weir:1:* +@all -set")
	s := startStoreOnce(t, "")
	at := func(user, password string, db int) storeSettings {
		return storeSettings{Redis: storeRedis{Hosts: []string{redis.Addr}, Username: user, Password: password, DB: db}}
	}
	for i := range 20 {
		for db, settings := range []storeSettings{at("", "", 0), at("weir", "secret", 1), at("weir", "secret", 2)} {
			r := s.ask(t, settings, true, "k")
			if r.Err != "" || r.Answers[0].Remaining != int64(999-i) {
				t.Fatalf("step %d, database %d: %+v", i, db, r)
			}
		}
	}
	c, err := redistest.Dial(redis.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for db := range 3 {
		c.Do("SELECT", db)
		if n, err := c.Do("DBSIZE"); n != int64(1) {
			t.Errorf("DBSIZE of %d = %v, %v, want 1", db, n, err)
		}
	}
	// Six: three databases, and the connections of this test.
	if info := fmt.Sprint(redis.Do(t, "INFO", "stats")); storeInfo(info, "total_connections_received") > 7 {
		t.Errorf("60 requests took too many connections: %.200s", info)
	}
	if stats := redis.Do(t, "INFO", "commandstats").(string); !strings.Contains(stats, "cmdstat_auth:calls=2,") {
		t.Errorf("AUTH of two databases' connections, once each: %s", stats)
	}
	for want, settings := range map[string]storeSettings{
		"WRONGPASS":              at("weir", "wrong", 0),
		"can't run this command": at("odd", "pw", 0),
		"DB index":               at("", "", 99),
		"want host:port":         {Redis: storeRedis{Hosts: []string{"localhost"}}},
		"at least one":           {},
		"refused":                {Redis: storeRedis{Hosts: []string{"127.0.0.1:1"}}},
		"no resolver":            {Redis: storeRedis{Hosts: []string{"redis.example:6379"}}},
		"127.0.0.1:65536":        {Redis: storeRedis{Hosts: []string{"127.0.0.1:65536"}}},
	} {
		if r := s.ask(t, settings, false, "k"); !strings.Contains(r.Err, want) {
			t.Errorf("%+v: err %q, want %q", settings, r.Err, want)
		}
	}
}

func storeInfo(info, field string) (n int) {
	_, rest, _ := strings.Cut(info, field+":")
	fmt.Sscan(rest, &n)
	return n
}

// TestStoreErrors checks that an error reply of Redis is returned, charges nothing and does
// not open the breaker.
func TestStoreErrors(t *testing.T) {
	s := startStoreOnce(t, "")
	full := redistest.Start(t, "maxmemory 100kb")
	reads := redistest.Start(t)
	good := redistest.Start(t)
	reads.Do(t, "REPLICAOF", "127.0.0.1", "1")
	good.Do(t, "SET", "weir:1:{bad}:1000/720h+burst+1000", "nonsense")
	good.Do(t, "RPUSH", "weir:1:{list}:1000/720h+burst+1000", "nonsense")
	for _, c := range []struct{ addr, key, want string }{
		{full.Addr, "k", "OOM"}, {reads.Addr, "k", "READONLY"}, {good.Addr, "bad", "BADSTATE"}, {good.Addr, "list", "WRONGTYPE"},
	} {
		for range 10 {
			if r := s.ask(t, storeSettings{Redis: storeRedis{Hosts: []string{c.addr}}}, true, c.key); !strings.Contains(r.Err, c.want) {
				t.Errorf("err %q, want %s", r.Err, c.want)
			}
		}
	}
	reads.Do(t, "REPLICAOF", "NO", "ONE")
	if r := s.ask(t, storeSettings{Redis: storeRedis{Hosts: []string{reads.Addr}}}, true, "k"); r.Err != "" || r.Answers[0].Remaining != 999 {
		t.Errorf("after all: %+v", r)
	}
}

// TestStoreScript checks that a flushed script is loaded again and the request charged once.
func TestStoreScript(t *testing.T) {
	s, redis := startStoreOnce(t, ""), redistest.Start(t)
	settings := storeSettings{Redis: storeRedis{Hosts: []string{redis.Addr}}}
	for i := range 30 {
		if i%3 == 0 {
			redis.Do(t, "SCRIPT", "FLUSH")
		}
		if r := s.ask(t, settings, true, "k"); r.Err != "" || r.Answers[0].Remaining != int64(999-i) {
			t.Fatalf("step %d: %+v", i, r)
		}
	}
}

// TestStoreHostile checks that any bytes from a server are one reply or an error, within the
// deadline.
func TestStoreHostile(t *testing.T) {
	s := startStoreOnce(t, "")
	big := strings.Repeat("x", 100_000)
	for name, c := range map[string]struct {
		text string
		end  bool
		want string
	}{
		"a grant":             {storeGeneral, false, ""},
		"closed":              {"", true, "closed"},
		"half an answer":      {storeGeneral[:30], true, "closed"},
		"half, and silence":   {storeGeneral[:30], false, "timeout"},
		"no script's":         {"$5\r\nhello\r\n", false, "a reply that is not the script's"},
		"a number":            {":1\r\n", false, "a reply that is not the script's"},
		"nothing":             {"$-1\r\n", false, "a reply that is not the script's"},
		"no array":            {"*-1\r\n", false, "a reply that is not the script's"},
		"an empty array":      {"*0\r\n", false, "answered 0 requests of 1"},
		"two answers":         {"*2\r\n" + storeGeneral[4:] + storeGeneral[4:], false, "answered 2 requests of 1"},
		"a short answer":      {"*1\r\n$3\r\nabc\r\n", false, "want an answer of 56 bytes, got 3"},
		"an error in it":      {"*1\r\n-ERR x\r\n", false, "not a text"},
		"an answer's error":   {"*1\r\n$4\r\n!BAD\r\n", false, "BAD"},
		"another protocol":    {"HTTP/1.1 200 OK\r\n\r\n", false, "unknown prefix"},
		"RESP3":               {"%1\r\n+a\r\n+b\r\n", false, "unknown prefix"},
		"a negative size":     {"*1\r\n$-7\r\n", false, "a reply of the size -7"},
		"an enormous size":    {"*1\r\n$99999999999\r\n", false, "a reply of the size 99999999999"},
		"no number":           {"*1\r\n$1e2\r\n", false, "not one of Redis"},
		"a hexadecimal one":   {"*0x1\r\n", false, "not one of Redis"},
		"no number of bytes":  {"$\r\n", false, "not one of Redis"},
		"no integer":          {"*1\r\n:one\r\n", false, "not one of Redis"},
		"a number too long":   {"*" + strings.Repeat("1", 40) + "\r\n", false, "not one of Redis"},
		"an enormous array":   {"*99999999\r\n", false, "a reply of the size 99999999"},
		"arrays in arrays":    {strings.Repeat("*1\r\n", 1000), false, "too many lists"},
		"a line without end":  {big, false, "without an end"},
		"a wrong length":      {"*1\r\n$2\r\nabcd\r\n", false, "want an answer of 56 bytes, got 2"},
		"a wrong length, big": {"*1\r\n$50000\r\n" + big, false, "want an answer of 56 bytes, got 50000"},
		"an empty line":       {"\r\n", false, "unknown prefix"},
		"loading":             {"-LOADING Redis is loading\r\n", false, "LOADING"},
		"busy":                {"-BUSY Redis is busy\r\n", false, "BUSY"},
		"hold keys, for ever": {"*1\r\n$56\r\n\x03" + strings.Repeat("\x00", 55) + "\r\n", false, "hold keys"},
	} {
		t.Run(name, func(t *testing.T) {
			fake := startStoreFake(t, func([]string) (string, bool) { return c.text, c.end })
			deadline := int64(20_000_000)
			if c.want == "timeout" {
				deadline = 300_000
			}
			r := s.askVerb(t, storeSettings{Redis: storeRedis{Hosts: []string{fake.addr}}, Deadline: deadline}, false, weir.Charge, "k")
			if c.want == "" && (r.Err != "" || !r.OK) || !strings.Contains(r.Err, c.want) {
				t.Errorf("got %+v, want %q", r, c.want)
			}
			asked := 1
			if c.want == "hold keys" {
				asked = 2
			}
			if n := len(fake.commands()); n != asked {
				t.Errorf("%d commands, want %d", n, asked)
			}
			if c.want != "timeout" && r.Took > 10_000 {
				t.Errorf("got a result after %d ms, want it without a wait for the deadline", r.Took)
			}
		})
	}
	t.Run("no script, for ever", func(t *testing.T) {
		fake := startStoreFake(t, func([]string) (string, bool) { return "-NOSCRIPT No matching script.\r\n", false })
		r := s.ask(t, storeSettings{Redis: storeRedis{Hosts: []string{fake.addr}}}, false, "k")
		if got := strings.Join(fake.commands(), " "); !strings.Contains(r.Err, "NOSCRIPT") || got != "EVALSHA EVAL" {
			t.Errorf("err %q after %s", r.Err, got)
		}
	})
	// The rest of one reply must not be read as the next one, so the connection is
	// closed.
	for name, text := range map[string]string{
		"more than was asked for": storeGeneral + "+more\r\n",
		"a text that goes on":     strings.Replace(storeGeneral, "$56", "$54", 1),
		"a list that goes on":     strings.Replace(storeGeneral, "*1", "*0", 1),
		"a list that ends early":  "*1\r\n$-1\r\n" + storeGeneral[4:],
	} {
		t.Run(name, func(t *testing.T) {
			fake := startStoreFake(t, func([]string) (string, bool) { return text, false })
			var said []string
			for range 3 {
				r := s.askVerb(t, storeSettings{Redis: storeRedis{Hosts: []string{fake.addr}}}, false, weir.Charge, "k")
				if said = append(said, fmt.Sprint(r.OK, strings.ReplaceAll(r.Err, fake.addr, ""))); said[0] != said[len(said)-1] {
					t.Errorf("the same reply is read as %q", said)
				}
			}
			if fake.total != 3 {
				t.Errorf("%d connections, want 3", fake.total)
			}
		})
	}
}

// TestStoreHostileTakes checks the same for replies of lua/takes.lua.
func TestStoreHostileTakes(t *testing.T) {
	s := startStoreOnce(t, "")
	for name, c := range map[string]struct{ text, want string }{
		"a grant":                  {storeGrant, ""},
		"a denial":                 {storeDenial, ""},
		"the general path's":       {storeGeneral, "a reply that is not the script's"},
		"nothing":                  {"$-1\r\n", "a reply that is not the script's"},
		"a number":                 {":1\r\n", "a reply that is not the script's"},
		"too short":                {"$17\r\n" + strings.Repeat("x", 17) + "\r\n", "a reply that is not the script's"},
		"no state":                 {storeTakes(1, 0, "nonsense"), "states that are not the script's"},
		"a state of one number":    {storeTakes(1, 0, "[1]"), "states that are not the script's"},
		"two states":               {storeTakes(1, 0, "\n"), "states that are not the script's"},
		"too many admitted":        {storeTakes(2, 0, ""), "the script admitted 2 and not 1"},
		"none admitted":            {storeTakes(0, 0, ""), "the script admitted 0 and not 1"},
		"an undecided one of none": {storeTakes(1, 1, "\x09\x00"), "the script admitted 1 and not 1"},
	} {
		t.Run(name, func(t *testing.T) {
			fake := startStoreFake(t, func([]string) (string, bool) { return c.text, false })
			r := s.ask(t, storeSettings{Redis: storeRedis{Hosts: []string{fake.addr}}}, false, "k")
			if c.want == "" && (r.Err != "" || r.OK != (c.text == storeGrant)) || !strings.Contains(r.Err, c.want) {
				t.Errorf("got %+v, want %q", r, c.want)
			}
			if n := len(fake.commands()); n != 1 {
				t.Errorf("%d commands, want 1", n)
			}
		})
	}
}

// TestStoreUndecided checks that the general path decides what lua/takes.lua leaves to it.
func TestStoreUndecided(t *testing.T) {
	s := startStoreOnce(t, "")
	for name, text := range map[string]string{"all": storeTakes(-1, 0, ""), "one": storeTakes(0, 1, "\x00\x00")} {
		fake := startStoreFake(t, func(command []string) (string, bool) {
			if len(command) == 5 {
				return text, false
			}
			return storeGeneral, false
		})
		r := s.ask(t, storeSettings{Redis: storeRedis{Hosts: []string{fake.addr}}}, false, "k")
		if got := strings.Join(fake.commands(), " "); r.Err != "" || !r.OK || got != "EVALSHA EVALSHA" {
			t.Errorf("%s: %+v after %s", name, r, got)
		}
	}
}

// TestStoreLarge checks a reply that arrives in many pieces, and a call with as many words as
// Lua can pass.
func TestStoreLarge(t *testing.T) {
	redis := redistest.Start(t)
	limits := []weir.Limit{weir.MustLimit(onceLimit)}
	s := startStore(t, storeSettings{Redis: storeRedis{Hosts: []string{redis.Addr}}, Deadline: 5e6}, newStorePlan(limits), "")
	text := s.code(t, `
local h = require "storetest"
local connections = h.store.redis
local function ask(...)
  local conn = assert(connections:open(require("weir.clock").now() + 5000))
  local reply, problem = conn:ask(require("weir.clock").now() + 5000, ...)
  if reply then conn:keep() else conn:close() end
  return reply, problem
end
local long = ("0123456789"):rep(500000)
if ask("set", "long", long) ~= "OK" or ask("get", "long") ~= long then ngx.say("5 MB are not what they were") end
ask("rpush", "list", ("x"):rep(70000), "", "\r\n", "$5\r\n")
local list = ask("lrange", "list", 0, -1)
if #list ~= 4 or #list[1] ~= 70000 or list[2] ~= "" or list[3] ~= "\r\n" or list[4] ~= "$5\r\n" then ngx.say("a list of ", #list) end
if ask("get", "none") ~= ngx.null then ngx.say("none is something") end
local _, problem = ask("get", "list")
if not problem or not problem:find("^WRONGTYPE") then ngx.say("an error: ", problem) end

local function many(n, verb)
  local rs = {}
  for i = 1, n do rs[i] = { key = "k" .. i, rule = h.plan.rules[1], verb = verb, n = 1, id = "r" .. i, ttl = 6e7 } end
  return rs
end
for _, c in ipairs{ { 1024, 0 }, { 1024, 6 }, { 1024, 8 } } do
  local answers, problem = h.store.run(many(c[1], c[2]), true)
  if not answers or not answers.ok or #answers ~= c[1] then ngx.say("verb ", c[2], ": ", problem or "not ok") end
end
local answers, problem = h.store.run(many(1025, 0), true)
if answers or not problem:find("want at most 1024") then ngx.say("too many requests: ", problem) end
if h.store.unavailable() then ngx.say("unavailable: ", h.store.unavailable()) end
local again = h.store.run(many(1, 0), true)
if not again or again[1].remaining ~= 998 then ngx.say("after it: ", again and again[1].remaining) end
`, "")
	if text != "" {
		t.Error(text)
	}
}

// TestStoreLibrary checks that OpenResty's client library is preferred to Debian's, and that
// without either the error names the missing package.
func TestStoreLibrary(t *testing.T) {
	const none = `package.preload["resty.redis"] = function() error("none") end
`
	const new = `local r, err = require("weir.redis").new{ hosts = { "127.0.0.1:1" } }
ngx.print(r and "made" or err)`
	for code, want := range map[string]string{
		none + new: "made",
		none + `package.loaded["nginx.redis"] = nil
package.preload["nginx.redis"] = function() error("none") end
` + new: "redis: no client library: install lua-nginx-redis (Debian) or lua-resty-redis (OpenResty has it)",
		`package.preload["resty.redis"] = function() return { new = function() return nil, "the first" end } end
local r = require("weir.redis").new{ hosts = { "127.0.0.1:1" } }
ngx.print(select(2, r:open(1e15)))`: "the first",
	} {
		if got := nginxtest.Lua(t, code, ""); got != want {
			t.Errorf("%s\ngave %q, want %q", code, got, want)
		}
	}
}
