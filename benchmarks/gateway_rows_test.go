package benchmarks

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/benchmarks/compare"
	"github.com/floodweir/weir/e2e/nginxtest"
	"github.com/floodweir/weir/e2e/redistest"
)

var (
	proxyAll = []compare.Column{
		{Name: "server", Head: "proxy CPU µs", Ratio: true},
		{Name: "wall", Head: "wall µs", Ratio: true},
		{Name: "p99", Head: "p99 µs"},
	}
	proxyRedis = []compare.Column{
		{Name: "both", Head: "proxy and Redis CPU µs", Ratio: true},
		{Name: "redis", Head: "Redis CPU µs", Ratio: true},
		{Name: "wall", Head: "wall µs", Ratio: true},
		{Name: "p99", Head: "p99 µs"},
	}
)

// gatewayRows proxy requests to an nginx that answers at once, with wrk over 64 connections.
func gatewayRows() []compare.Row {
	proxies := func(path string) (all []compare.Contender) {
		all = append(all, weirGateway(path), plainNginx("nginx, limit_req", path))
		for _, name := range []string{"httputil", "fasthttp proxy"} {
			all = append(all, compare.Contender{Name: name, Open: func(t testing.TB) compare.Measure {
				s := startSmall(t, name, startUpstream(t))
				return through(t, []int{s.pid}, nil, s.addr, path, 64)
			}})
		}
		return all
	}
	gateway := func(name, path, denied string, least float64) compare.Row {
		return compare.Row{
			Name: name, Title: "a proxied request, limit in memory, " + denied, Base: "weir", Columns: proxyAll, Shortest: time.Second, Contenders: proxies(path),
			Goals: []compare.Goal{{Contender: "nginx, limit_req", Column: "server", Least: least}},
		}
	}
	return []compare.Row{
		gateway("gateway/allowed", "/one", "allowed", 1/2.0), gateway("gateway/rejected", "/denied", "rejected", 1/1.5),
		{
			Name: "gateway/redis-two", Title: "a proxied request with two limits in Redis", Base: "weir", Columns: proxyRedis, Shortest: time.Second,
			Goals:      []compare.Goal{{Column: "redis", Most: 10}},
			Contenders: []compare.Contender{weirGateway("/two")},
		},
		{
			Name: "gateway/nginx-lua", Title: "nginx with a limit in Lua and Redis", Base: "weir in Lua", Columns: proxyRedis, Shortest: time.Second,
			Goals: []compare.Goal{{Contender: "counter in Lua", Column: "both", Least: 1 / 1.1}},
			Contenders: []compare.Contender{
				{Name: "weir in Lua", Open: func(t testing.TB) compare.Measure { return luaWay(t, "nginx, Weir in Lua and Redis") }},
				{Name: "counter in Lua", Open: func(t testing.TB) compare.Measure { return luaWay(t, "nginx, a counter in Lua and Redis") }},
				{Name: "lua-resty-limit-traffic, no Redis", Open: restyLimit},
				plainNginx("nginx, limit_req, no Redis", "/one"),
			},
		},
	}
}

func startUpstream(t testing.TB) string {
	return nginxtest.Start(t, nginxtest.Config{HTTP: upstreamConf, Main: "# no module"}).Addr
}

// through measures requests through a proxy, after a first response.
func through(t testing.TB, servers, redis []int, addr, path string, connections int) compare.Measure {
	denied := strings.Contains(path, "denied")
	want := http.StatusOK
	if denied {
		want = http.StatusTooManyRequests
	}
	await(t, "http://"+addr+path, want)
	return wrk(t, servers, redis, connections, denied, "http://"+addr+path)
}

// The policies of the gateway. Without its store it would reject /two with 503.
const gatewayFile = `
gateway:
  trusted_proxies: [127.0.0.1]
  routes:
    - { path: /, upstream: "http://UPSTREAM" }
policies:
  - { name: one, match: /one, key: [client.ip], limits: [100000000/s] }
  - { name: denied, match: /denied, key: [client.ip], limits: [1/24h] }
  - { name: two, match: /two, key: [client.ip], limits: [100000000/s, 1000000000000/24h], on_store_error: closed }
`

func weirGateway(path string) compare.Contender {
	return compare.Contender{Name: "weir", Open: func(t testing.TB) compare.Measure {
		var s server
		var redis []int
		if path == "/two" {
			r := redistest.Start(t)
			s, redis = serveGateway(t, "redis://"+r.Addr), []int{r.PID()}
		} else {
			s = serveGateway(t, "memory")
		}
		return through(t, []int{s.pid}, redis, s.addr, path, 64)
	}}
}

// serveGateway starts the gateway before an upstream.
func serveGateway(t testing.TB, store string) server {
	t.Helper()
	return serveWeir(t, "gateway", strings.ReplaceAll(gatewayFile, "UPSTREAM", startUpstream(t)), "--store", store, "--max-connections", "20000")
}

func plainNginx(name, path string) compare.Contender {
	return compare.Contender{Name: name, Open: func(t testing.TB) compare.Measure {
		s := limitingNginx(t)
		return through(t, []int{s.pid}, []int{}, s.addr, path, 64)
	}}
}

// limitingNginx starts an nginx with limit_req before an upstream.
func limitingNginx(t testing.TB) server {
	t.Helper()
	conf := strings.NewReplacer("UPSTREAM", startUpstream(t), "MEMORY", "127.0.0.1:9", "REDIS", "127.0.0.1:9").Replace(plainConf)
	s := nginxtest.Start(t, nginxtest.Config{HTTP: conf, Main: "# no module"})
	return server{s.Address(2), s.PID()}
}

// luaWay measures one of the ways of BenchmarkNginx, whose servers it starts.
func luaWay(t testing.TB, name string) compare.Measure {
	ways, p := startWays(t)
	for _, w := range ways {
		if w.name == name && !w.denied {
			await(t, w.url, http.StatusOK)
			return wrk(t, p.pids[nginxGroup], []int{p.redis.PID()}, 64, false, w.url)
		}
	}
	t.Fatalf("no way %q", name)
	return nil
}

// restyLimit measures resty.limit.req, whose state nginx shares among its workers.
func restyLimit(t testing.TB) compare.Measure {
	var dir string
	for _, d := range []string{os.Getenv("LUA_RESTY_LIMIT"), "/usr/share/lua/5.1", "/usr/local/openresty/lualib"} {
		if _, err := os.Stat(d + "/resty/limit/req.lua"); err == nil {
			dir = d
		}
	}
	if dir == "" {
		t.Fatal("resty/limit/req.lua is not installed, and Debian has no package of it: set LUA_RESTY_LIMIT to the lib directory of lua-resty-limit-traffic")
	}
	conf := proxyConf + `
  lua_package_path "` + dir + `/?.lua;;";
  lua_shared_dict limits 10m;
  server {
    listen ADDR;
    location / {
      access_by_lua_block {
        local limit = require("resty.limit.req").new("limits", 100000000, 100000)
        local delay = limit:incoming(ngx.var.binary_remote_addr, true)
        if not delay then return ngx.exit(429) end
      }
      proxy_pass http://behind;
    }
  }
`
	s := nginxtest.Start(t, nginxtest.Config{HTTP: strings.ReplaceAll(conf, "UPSTREAM", startUpstream(t))})
	return through(t, []int{s.PID()}, []int{}, s.Addr, "/one", 64)
}
