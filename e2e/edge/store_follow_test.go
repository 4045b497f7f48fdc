package edge_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/floodweir/weir/e2e/nginxtest"
	"github.com/floodweir/weir/e2e/redistest"
)

const storeFollow = storeLua + `
local M = { adopted = {} }
function M.start()
  local redis = assert(require("weir.redis").new(cjson.decode([==[SETTINGS]==])))
  M.state = assert(require("weir.follow").start(redis, function(text)
    local plan = cjson.decode(text)
    if plan.refuse then return nil, "a reason" end
    if plan.throw then error("thrown") end
    table.insert(M.adopted, plan.version)
    return true
  end, 0.05))
end
function M.call()
  return cjson.encode{ adopted = table.concat(M.adopted, " "), version = M.state.version or 0, trouble = M.state.trouble or "" }
end
return M
`

type storeFollowing struct {
	Adopted string `json:"adopted"`
	Version int    `json:"version"`
	Trouble string `json:"trouble"`
}

// TestStoreFollow checks that a worker applies published policies once when they change, and
// keeps its own when they are invalid or cannot be read.
func TestStoreFollow(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	proxy := redistest.StartProxy(t, redis.Addr)
	dir := t.TempDir()
	text := strings.Replace(storeFollow, "SETTINGS", storeJSON(t, storeRedis{Hosts: []string{proxy.Addr}}), 1)
	if err := os.WriteFile(filepath.Join(dir, "storefollow.lua"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := nginxtest.Start(t, nginxtest.Config{HTTP: `
  lua_package_path "` + nginxtest.Edge(t) + `/?.lua;` + dir + `/?.lua;;";
  init_worker_by_lua_block { require("storefollow").start() }
  server { listen ADDR; location / { content_by_lua_block { ngx.print(require("storefollow").call()) } } }`})
	var last storeFollowing
	state := func() storeFollowing {
		if err := json.Unmarshal([]byte(storePost(t, s.Addr, "")), &last); err != nil {
			t.Fatal(err)
		}
		return last
	}
	const key = "weir:1:policies"
	publish := func(version, id, edge string) {
		t.Helper()
		redis.Do(t, "HSET", key, "version", version, "id", id, "edge", edge)
	}
	until := func(adopted, trouble string) {
		t.Helper()
		defer func() {
			if t.Failed() {
				t.Logf("last: %+v", last)
			}
		}()
		await(t, "adopted "+adopted+", trouble "+trouble, func() bool {
			f := state()
			return f.Adopted == adopted && (trouble == "") == (f.Trouble == "") && strings.Contains(f.Trouble, trouble)
		})
	}
	looks := func() int {
		return storeInfo(strings.Replace(redis.Do(t, "INFO", "commandstats").(string), "cmdstat_eval:calls=", "looks:", 1), "looks")
	}
	twice := func() { // two more polls
		t.Helper()
		from := looks()
		await(t, "two looks", func() bool { return looks() >= from+2 })
	}

	twice()
	until("", "")
	publish("7", "a", `{"version":7}`)
	until("7", "")
	twice()
	until("7", "")
	publish("8", "b", `{"version":8,"error":"policy p: where: cannot be compiled"}`)
	until("7", "version 8: policy p: where: cannot be compiled")
	twice()
	publish("9", "c", `{"version":9}`)
	until("7 9", "")
	for version, edge := range map[string]string{"10": `{"version":9}`, "11": `{"version":`, "12": "", "13": `7`, "14": `{"version":14,"refuse":true}`, "15": `{"version":15,"throw":true}`, "16": `{"version":"16"}`, "17": `null`} {
		publish(version, "x", edge)
		until("7 9", "version "+version+": ")
	}
	redis.Do(t, "HSET", key, "version", "nonsense")
	until("7 9", "want a number")
	redis.Do(t, "DEL", key)
	redis.Do(t, "SET", key, "x")
	until("7 9", "WRONGTYPE")
	redis.Do(t, "FLUSHALL")
	publish("9", "d", `{"version":9,"another":"of this number"}`)
	until("7 9 9", "")
	redis.Do(t, "FLUSHALL")
	twice()
	until("7 9 9", "")
	publish("1", "e", `{"version":1}`)
	until("7 9 9 1", "")
	publish("1", "of another Redis", `{"version":1}`)
	until("7 9 9 1 1", "")
	proxy.Set(redistest.CutReplies)
	until("7 9 9 1 1", "closed")
	publish("2", "f", `{"version":2,"long":"`+strings.Repeat("x", 3<<20)+`"}`)
	proxy.Set(redistest.NoFault)
	until("7 9 9 1 1 2", "")
	if n := strings.Count(s.Log(), "cannot be compiled"); n != 1 {
		t.Errorf("the log names version 8 %d times, want once", n)
	}
	// An error_log without a level has only errors.
	if n := strings.Count(s.Log(), "[error]"); n == 0 || n > 6 {
		t.Errorf("%d errors; the log:\n%s", n, s.Log())
	}
}
