package edge_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/programtest"
)

// TestSite checks requests through nginx with Lua.
func TestSite(t *testing.T) {
	weir := programtest.Weir(t)
	for _, c := range []struct {
		name  string
		test  func(*testing.T, string)
		alone bool // measures times or rates
	}{
		{"same", testSiteSame, false},
		{"most", testSiteMost, false},
		{"slots", testSiteSlots, true},
		{"settle", testSiteSettle, false},
		{"shadow", testSiteShadow, false},
		{"doubts", testSiteDoubts, true},
		{"free", testSiteFree, true},
		{"queue", testSiteQueue, true},
		{"once", testSiteOnce, false},
		{"streams", testSiteStreams, false},
		{"upstream", testSiteUpstream, false},
		{"satisfy", testSiteSatisfy, false},
		{"jitter", testSiteJitter, false},
		{"down", testSiteDown, false},
		{"fault", testSiteFault, true},
		{"metrics", testSiteMetrics, false},
		{"reload", testSiteReload, false},
		{"published", testSitePublished, false},
		{"adjusted", testSiteAdjusted, false},
		{"init", testSiteInit, false},
		{"bodies", testSiteBodies, false},
		{"cache", testSiteCache, false},
		{"contexts", testSiteContexts, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !c.alone {
				t.Parallel()
			}
			c.test(t, weir)
		})
	}
}

// testSiteOnce checks that a request is decided once, whatever internal redirects follow.
func testSiteOnce(t *testing.T, weir string) {
	d := startSite(t, weir, `policies:
  - { name: api, key: client.ip, limits: 100/d }
`, `
    location / { proxy_pass http://UPSTREAM; proxy_intercept_errors on; error_page 404 = /sorry; error_page 500 = @named; }
    location = /sorry { return 200 "sorry"; }
    location @named { access_by_lua_block { require("weir").access() } content_by_lua_block { ngx.print("named") } }
    location /proxied { proxy_pass http://UPSTREAM; proxy_intercept_errors on; error_page 404 = /again; }
    location /again { proxy_pass http://UPSTREAM/; }
    location /tried { try_files /none /again; }
    location /rewritten { rewrite ^ /again last; }
    location /sent { proxy_pass http://UPSTREAM/; }
    location /captured { content_by_lua_block { local r = ngx.location.capture("/again") ngx.print(r.body) } }
    location /checked { auth_request /again; proxy_pass http://UPSTREAM; }
    location /executed { content_by_lua_block { ngx.exec("/again") } }
    location /twice { access_by_lua_block { require("weir").decide() require("weir").access() } proxy_pass http://UPSTREAM; }
`)
	left := 100
	for _, c := range []struct{ path, body string }{
		{"/", "through\n"}, {"/?status=404", "sorry"}, {"/?status=500", "named"}, {"/proxied?status=404", "through\n"},
		{"/tried", "through\n"}, {"/rewritten", "through\n"}, {"/sent?set=X-Accel-Redirect:/again", "through\n"},
		{"/captured", "through\n"}, {"/executed", "through\n"}, {"/twice", "through\n"},
	} {
		a := d.ask(t, http.MethodGet, c.path)
		left--
		if want := []string{itoa(left)}; a.left() != want[0] || len(a.header.Values("X-Ratelimit-Remaining")) != 1 {
			t.Errorf("GET %s: %v left, want %v", c.path, a.header.Values("X-Ratelimit-Remaining"), want)
			left = atoi(a.left())
		}
		if a.body != c.body {
			t.Errorf("GET %s: %d %q, want %q", c.path, a.status, a.body, c.body)
		}
	}
	d.clean(t)
}

// testSiteStreams checks that concurrent requests of one HTTP/2 connection are decided
// separately.
func testSiteStreams(t *testing.T, weir string) {
	d := startSite(t, weir, `policies: [{ name: api, key: client.ip, limits: 20/d }]`,
		`listen ADDR2 http2; location / { error_page 404 = /again; try_files /none =404; } location /again { proxy_pass http://UPSTREAM/; }`)
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &p}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	statuses := make(chan int, 30)
	for range 30 {
		go func() {
			res, err := client.Get("http://" + d.Address(2) + "/")
			if err != nil {
				statuses <- 0
				return
			}
			res.Body.Close()
			statuses <- res.StatusCode
		}()
	}
	count := map[int]int{}
	for range 30 {
		count[<-statuses]++
	}
	if count[200] != 20 || count[429] != 10 {
		t.Errorf("30 at 20/d: %v, want 20 with 200 and 10 with 429", count)
	}
	d.clean(t)
}

// testSiteUpstream checks that a response has one set of limit headers, whatever the upstream
// sends.
func testSiteUpstream(t *testing.T, weir string) {
	d := startSite(t, weir, `policies: [{ name: api, match: /api, key: client.ip, limits: 5/d }]`, "")
	own := "?set=Ratelimit:x&set=RateLimit-Policy:y&set=x-ratelimit-limit:7&set=X-RateLimit-Remaining:8&set=X-RateLimit-Remaining:9"
	a := d.ask(t, http.MethodGet, "/api"+own)
	for name, want := range map[string]string{
		"Ratelimit": `"api";r=4;t=17280`, "Ratelimit-Policy": `"api";q=5;w=86400`,
		"X-Ratelimit-Limit": "5", "X-Ratelimit-Remaining": "4", "X-Ratelimit-Reset": "17280",
	} {
		if got := a.header.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q alone", name, got, want)
		}
	}
	a = d.ask(t, http.MethodGet, "/other"+own)
	if got := a.header.Values("X-Ratelimit-Remaining"); len(got) != 2 || got[0] != "8" {
		t.Errorf("without a policy: %q, want the headers of the upstream", got)
	}
	d.clean(t)
}

// testSiteSatisfy checks that an admitted request still needs authorization.
func testSiteSatisfy(t *testing.T, weir string) {
	d := startSite(t, weir, `policies: [{ name: api, match: /limited, key: client.ip, limits: 1/d }, { name: any, match: { paths: [/any, /before] }, key: path, limits: 1/d }]`, `
    location /any { satisfy any; allow all; proxy_pass http://UPSTREAM; }
    location /before { rewrite_by_lua_block { require("weir").decide() } satisfy any; allow all; proxy_pass http://UPSTREAM; }
    location / { satisfy any; deny all; proxy_pass http://UPSTREAM; }
    location /limited { satisfy all; allow all; proxy_pass http://UPSTREAM; }
    location /limited/deny { deny all; proxy_pass http://UPSTREAM; }`)
	d.want(t, "/", 403)
	d.want(t, "/none", 403)
	d.want(t, "/limited", 200, 429)
	d.want(t, "/limited/deny", 403)
	d.want(t, "/any", 200, 200, 200) // nginx does not check further, as the page says
	d.want(t, "/before", 200, 429)
	if n := d.upstream.seen.Load(); n != 5 {
		t.Errorf("the upstream received %d requests, want 5", n)
	}
}

// testSiteJitter checks that Retry-After is never earlier than the time at which a request may
// pass.
func testSiteJitter(t *testing.T, weir string) {
	d := startSite(t, weir, "gateway: { retry_jitter: 30s }\npolicies: [{ name: api, key: client.ip, limits: 1/h }]", "")
	d.want(t, "/", 200)
	seen := map[int]bool{}
	for range 40 {
		after := atoi(d.ask(t, http.MethodGet, "/").header.Get("Retry-After"))
		if after < 3590 || after > 3630 {
			t.Fatalf("Retry-After %d, want 3600 to 3630", after)
		}
		seen[after] = true
	}
	if len(seen) < 5 {
		t.Errorf("40 denials have %d different values, want them spread over 30s", len(seen))
	}
	d.clean(t)
}

// testSiteMetrics checks that all workers together count the outcomes of requests.
func testSiteMetrics(t *testing.T, weir string) {
	d := startSite(t, weir, `policies:
  - { name: api, match: /api, key: client.ip, limits: 3/d }
  - { name: all, match: /api, key: client.ip, limits: 100/d }
  - { name: try, match: /api, key: client.ip, limits: 2/d, mode: shadow }
  - { name: bad, match: /bad, key: client.ip, limits: 2/d, cost: 'request.headers["x-two"] == "1" ? 1 : 2' }
`, "")
	for range 5 {
		d.get(t, "/api")
	}
	d.get(t, "/bad", "X-Two: 1", "X-Two: 2")
	for series, want := range map[string]float64{
		`weir_decisions_total{interface="nginx",policy="api",outcome="admitted"}`:        3,
		`weir_decisions_total{interface="nginx",policy="api",outcome="denied"}`:          2,
		`weir_decisions_total{interface="nginx",policy="all",outcome="admitted"}`:        3,
		`weir_decisions_total{interface="nginx",policy="all",outcome="held"}`:            2,
		`weir_shadow_decisions_total{interface="nginx",policy="try",outcome="admitted"}`: 2,
		`weir_shadow_decisions_total{interface="nginx",policy="try",outcome="denied"}`:   1,
		`weir_expression_errors_total{policy="bad"}`:                                     1,
		`weir_edge_faults_total`: 0,
	} {
		d.metric(t, series, want)
	}
	d.clean(t)
}

// testSiteBodies checks that the connection is usable after a denial, whatever body the
// request had.
func testSiteBodies(t *testing.T, weir string) {
	d := startSite(t, weir, `policies: [{ name: api, key: client.ip, limits: 1/d }]`, "")
	d.want(t, "/", 200)
	conn, err := net.Dial("tcp", d.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	r := bufio.NewReader(conn)
	for i, text := range []string{
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 70000\r\n\r\n" + strings.Repeat("x", 70000),
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nGET /\r\n0\r\n\r\n",
		"PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: a\r\n\r\n", "",
		"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.0\r\nHost: a\r\n\r\n",
	} {
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatalf("request %d: %v", i+1, err)
		}
		method, _, _ := strings.Cut(text, " ")
		res, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("request %d: %v", i+1, err)
		}
		if a := readSiteResponse(t, res); a.status != 429 || method != "HEAD" && !strings.Contains(a.body, "quota-exceeded") {
			t.Errorf("request %d: %d %q, want 429 with a problem", i+1, a.status, a.body)
		}
	}
	if n := d.upstream.seen.Load(); n != 1 {
		t.Errorf("the upstream received %d requests, want 1", n)
	}
	d.clean(t)
}

// testSiteCache checks that a response from nginx's cache has the limit headers of its own
// request.
func testSiteCache(t *testing.T, weir string) {
	d := startSite(t, weir, `policies: [{ name: api, key: client.ip, limits: 3/d }]`, "")
	config := d.config
	config.HTTP = "proxy_cache_path DIR/cache keys_zone=z:1m;\n" + strings.Replace(config.HTTP, "location / {",
		"location / { proxy_cache z; proxy_cache_valid 200 1m; add_header X-Cache $upstream_cache_status;", 1)
	d.Reload(t, config)
	for i, c := range []struct{ cache, left string }{{"MISS", "2"}, {"HIT", "1"}, {"HIT", "0"}} {
		a := d.ask(t, http.MethodGet, "/?set=X-RateLimit-Remaining:77&set=Ratelimit:x")
		if got := a.header.Values("X-Ratelimit-Remaining"); a.header.Get("X-Cache") != c.cache || len(got) != 1 || got[0] != c.left || len(a.header.Values("Ratelimit")) != 1 {
			t.Errorf("request %d: %s, left %q, want %s and %s alone", i+1, a.header.Get("X-Cache"), got, c.cache, c.left)
		}
	}
	d.want(t, "/?set=X-RateLimit-Remaining:77&set=Ratelimit:x", 429)
	d.clean(t)
}

// testSiteContexts checks that directives in the http block apply to servers and locations
// without their own, and that an error_page does not replace a denial.
func testSiteContexts(t *testing.T, weir string) {
	d := startSite(t, weir, `policies: [{ name: api, key: client.ip, limits: 2/d, on_denied: { body: "enough" } }]`, "")
	config := d.config
	before, _, _ := strings.Cut(config.HTTP, "server { listen")
	config.HTTP = before + sitePhases + `
    server { listen ADDR; error_page 429 503 /sorry;
      location / { proxy_pass http://` + d.upstream.addr + `; }
      location /free { access_by_lua_block { return } proxy_pass http://` + d.upstream.addr + `; }
      location = /sorry { return 200 "sorry"; } }
    server { listen ADDR2; location / { access_by_lua_block { require("weir").access() } content_by_lua_block { ngx.print("two") } } }`
	d.Reload(t, config)
	d.want(t, "/", 200)
	res, err := d.client.Get("http://" + d.Address(2) + "/")
	if err != nil {
		t.Fatal(err)
	}
	if a := readSiteResponse(t, res); a.status != 200 || a.left() != "0" {
		t.Errorf("another server: status %d, %s left, want 200 and 0", a.status, a.left())
	}
	if a := d.ask(t, http.MethodGet, "/"); a.status != 429 || a.body != "enough" {
		t.Errorf("a denial: %d %q, want 429 and the text of the policy", a.status, a.body)
	}
	d.want(t, "/free", 200)
	d.clean(t)
}
