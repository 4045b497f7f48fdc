package benchmarks

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/nginxtest"
	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/internal/porttest"
)

// The upstream of every way.
const upstreamConf = `
  server { listen ADDR; location / { return 200 "ok\n"; } }
`

// The common part of every way through nginx: upstream connections are kept alive, and
// logs are off.
const proxyConf = `
  error_log DIR/http.log warn;
  limit_req_log_level info;
  limit_req_status 429;
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  upstream behind { server UPSTREAM; keepalive 4096; }
`

// nginx alone, nginx with its own limit, and nginx before the gateway.
const plainConf = proxyConf + `
  limit_req_zone $binary_remote_addr zone=wide:10m rate=100000000r/s;
  limit_req_zone $binary_remote_addr zone=narrow:10m rate=1r/m;
  upstream gateway-memory { server MEMORY; keepalive 64; }
  upstream gateway-redis { server REDIS; keepalive 64; }
  server { listen ADDR; location / { proxy_pass http://behind; } }
  server {
    listen ADDR2;
    location /one { limit_req zone=wide burst=100000 nodelay; proxy_pass http://behind; }
    location /denied { limit_req zone=narrow; proxy_pass http://behind; }
  }
  server { listen ADDR3; location / { proxy_pass http://gateway-memory; proxy_set_header Connection ""; proxy_set_header X-Forwarded-For $remote_addr; } }
  server { listen ADDR4; location / { proxy_pass http://gateway-redis; proxy_set_header Connection ""; proxy_set_header X-Forwarded-For $remote_addr; } }
`

// nginx with auth_request to Weir, as in docs/forward-auth.md.
const authConf = `
  upstream weir { server WEIR; keepalive 64; }
  server {
    listen ADDR;
    location / {
      auth_request /weir;
      auth_request_set $weir_status $upstream_http_weir_status;
      auth_request_set $weir_retry $upstream_http_retry_after;
      auth_request_set $weir_limit $upstream_http_ratelimit;
      auth_request_set $weir_policy $upstream_http_ratelimit_policy;
      add_header RateLimit $weir_limit always;
      add_header RateLimit-Policy $weir_policy always;
      error_page 403 = @limited;
      proxy_pass http://behind;
    }
    location = /weir {
      internal;
      proxy_pass http://weir/v1/auth?denied=403;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_pass_request_body off;
      proxy_set_header Content-Length "";
      proxy_set_header X-Forwarded-Method $request_method;
      proxy_set_header X-Forwarded-Uri $request_uri;
      proxy_set_header X-Forwarded-Host $host;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header X-Original-Method "";
      proxy_set_header X-Original-URI "";
      proxy_set_header X-Original-URL "";
    }
    location @limited {
      add_header Retry-After $weir_retry always;
      add_header RateLimit $weir_limit always;
      add_header RateLimit-Policy $weir_policy always;
      if ($weir_status = 503) {
        return 503;
      }
      return 429;
    }
  }
`

// The peer: a fixed-window counter for nginx and Redis, as users write it. It is one
// script call, which sends a key and returns a number. One round trip is the minimum.
const peerConf = proxyConf + `
  lua_package_path ";;";
  init_by_lua_block {
    local ok
    ok, redis = pcall(require, "resty.redis")
    if not ok then redis = require "nginx.redis" end
    function limited(prefix, most)
      local red = redis:new()
      red:set_timeout(5000)
      local ok, err = red:connect("REDISHOST", REDISPORT)
      if not ok then ngx.log(ngx.ERR, err); return ngx.exit(503) end
      local n, err = red:evalsha("SHA", 1, prefix .. ngx.var.remote_addr, 60)
      if not n then ngx.log(ngx.ERR, err); return ngx.exit(503) end
      red:set_keepalive(60000, 64)
      if n > most then return ngx.exit(429) end
    end
  }
  server {
    listen ADDR;
    location /one { access_by_lua_block { limited("one:", 1e9) } proxy_pass http://behind; }
    location /denied { access_by_lua_block { limited("denied:", 1) } proxy_pass http://behind; }
  }
`

const peerScript = `local n = redis.call('INCR', KEYS[1]) if n == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end return n`

// nginx with Weir's Lua, as in docs/nginx.md. CONF is the output of weir edge nginx.
const edgeConf = proxyConf + `
  CONF
  server {
    listen ADDR;
    location / {
      access_by_lua_block { require("weir").access() }
      proxy_pass http://behind;
    }
  }
`

// The policies of every way through Weir, selected by path. Without its store, Weir would
// respond with 503 where all requests should be admitted, and with 200 where none should.
const policiesFile = `
gateway:
  trusted_proxies: [127.0.0.1]
  routes:
    - { path: /, upstream: "http://UPSTREAM" }
http:
  trusted_proxies: [127.0.0.1]
failover:
  deadline: 5s
policies:
  - { name: one, match: /one, key: [client.ip], limits: [100000000/s], on_store_error: closed }
  - { name: denied, match: /denied, key: [client.ip], limits: [1/24h], on_store_error: open }
  - { name: three-per-client, match: /three, key: [client.ip], limits: [100000000/s, 1000000000000/24h], on_store_error: closed }
  - { name: three-together, match: /three, key: ["const:all"], limits: [200000000/s], on_store_error: closed }
  - { name: three-denied-per-client, match: /three-denied, key: [client.ip], limits: [100000000/s, 1/24h], on_store_error: open }
  - { name: three-denied-together, match: /three-denied, key: ["const:all"], limits: [200000000/s], on_store_error: open }
`

// A way is one path to the upstream, or to a denial.
type way struct {
	name   string
	url    string
	denied bool
}

// startWays starts the servers of all ways until the end of the benchmark.
func startWays(b testing.TB) ([]way, *processes) {
	b.Helper()
	redis := redistest.Start(b)
	p := &processes{redis: redis}
	none := "# no module"
	upstream := nginxtest.Start(b, nginxtest.Config{HTTP: upstreamConf, Main: none})
	p.pids[upstreamGroup] = []int{upstream.PID()}

	dir := b.TempDir()
	file, binary := filepath.Join(dir, "weir.yaml"), programtest.Weir(b)
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(policiesFile, "UPSTREAM", upstream.Addr)), 0o600); err != nil {
		b.Fatal(err)
	}
	memory := startWeir(b, p, binary, file, "memory")
	shared := startWeir(b, p, binary, file, "redis://"+redis.Addr)

	start := func(conf string, main string, pairs ...string) *nginxtest.Server {
		conf = strings.NewReplacer(append(pairs, "UPSTREAM", upstream.Addr)...).Replace(conf)
		s := nginxtest.Start(b, nginxtest.Config{HTTP: conf, Main: main})
		p.pids[nginxGroup] = append(p.pids[nginxGroup], s.PID())
		return s
	}
	plain := start(plainConf, none, "MEMORY", memory.gateway, "REDIS", shared.gateway)
	authMemory := start(proxyConf+authConf, none, "WEIR", memory.api)
	authRedis := start(proxyConf+authConf, none, "WEIR", shared.api)
	host, port, err := net.SplitHostPort(redis.Addr)
	if err != nil {
		b.Fatal(err)
	}
	lua, err := exec.Command(binary, "edge", "nginx", file, "--store", "redis://"+redis.Addr, "--lua", nginxtest.Edge(b)).Output()
	if err != nil {
		b.Fatalf("weir edge nginx: %v", err)
	}
	edge := start(edgeConf, "", "CONF", string(lua))
	sha := fmt.Sprint(redis.Do(b, "SCRIPT", "LOAD", peerScript))
	peer := start(peerConf, "", "REDISHOST", host, "REDISPORT", port, "SHA", sha)

	limited := []struct{ name, addr, path, denied string }{
		{"nginx, limit_req", plain.Address(2), "/one", "/denied"},
		{"nginx, a counter in Lua and Redis", peer.Addr, "/one", "/denied"},
		{"nginx, Weir in Lua and Redis", edge.Addr, "/one", "/denied"},
		{"nginx, Weir in Lua and Redis, 3 limits", edge.Addr, "/three", "/three-denied"},
		{"nginx asks weir, memory", authMemory.Addr, "/one", "/denied"},
		{"nginx asks weir, Redis", authRedis.Addr, "/one", "/denied"},
		{"weir alone, memory", memory.gateway, "/one", "/denied"},
		{"weir alone, Redis", shared.gateway, "/one", "/denied"},
		{"nginx before weir, memory", plain.Address(3), "/one", "/denied"},
		{"nginx before weir, Redis", plain.Address(4), "/one", "/denied"},
	}
	ways := []way{{"nginx", "http://" + plain.Addr + "/one", false}}
	for _, l := range limited {
		ways = append(ways, way{l.name, "http://" + l.addr + l.path, false})
	}
	for _, l := range limited {
		ways = append(ways, way{l.name, "http://" + l.addr + l.denied, true})
	}
	return ways, p
}

// A weirServer is a running weir.
type weirServer struct{ gateway, api string }

func startWeir(b testing.TB, p *processes, binary, file, store string) weirServer {
	b.Helper()
	s := weirServer{porttest.Address(b), porttest.Address(b)}
	cmd := exec.Command(binary, "serve", file, "--store", store, "--listen-gateway", s.gateway, "--listen-http", s.api,
		"--listen-grpc", "off", "--listen-resp", "off", "--listen-admin", "off")
	log := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(10*time.Second, func() { cmd.Process.Kill() })
		defer timer.Stop()
		cmd.Wait()
		if b.Failed() {
			b.Logf("weir said:\n%s", log)
		}
	})
	p.pids[weirGroup] = append(p.pids[weirGroup], cmd.Process.Pid)
	await(b, "http://"+s.api+"/readyz", http.StatusOK)
	return s
}

// await polls a URL until it responds with a status.
func await(b testing.TB, url string, want int) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 15*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		got, err := get(ctx, url)
		if got == want {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.Fatalf("GET %s = %d, %v, want %d", url, got, err, want)
		}
	}
}

func get(ctx context.Context, url string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}
