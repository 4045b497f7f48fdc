package edge_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/floodweir/weir/contrib/goredis"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/weirfile"
)

// sameCases are policies and requests; each request is "METHOD /path", or the same n times.
// The limits are slow, so that a delay of a second does not change a header.
var sameCases = map[string]struct {
	policies string
	requests []string
}{
	"one limit":    {`policies: [{ name: api, key: client.ip, limits: 3/h }]`, []string{"GET /", "HEAD /", "POST /", "GET /", "HEAD /", "POST /", "GET /a?status=500"}},
	"two limits":   {`policies: [{ name: api, key: client.ip, limits: [6/h, 3/d] }]`, []string{"GET / 5"}},
	"two policies": {`policies: [{ name: api, key: client.ip, limits: 6/h }, { name: writes, match: { methods: POST }, key: client.ip, limits: [2/h, 5/d] }]`, []string{"GET / 2", "POST / 4", "GET / 4"}},
	"of several that deny the longest counts": {`policies: [{ name: a, key: client.ip, limits: 2/h, on_denied: { status: 503, body: short } }, { name: b, key: client.ip, limits: 2/d, on_denied: { status: 420, body: long } }]`, []string{"GET / 4"}},
	"no policy":        {`policies: [{ name: api, match: /api/*, key: client.ip, limits: 3/h }]`, []string{"GET /", "GET /api/ 4", "GET /other"}},
	"cost":             {`policies: [{ name: api, key: client.ip, limits: 10/h, cost: 4 }]`, []string{"GET / 4"}},
	"never":            {`policies: [{ name: api, key: client.ip, limits: 3/h, cost: 'request.path == "/dear" ? 4 : 1' }]`, []string{"GET /dear 2", "GET /", "GET /dear"}},
	"nothing":          {`policies: [{ name: api, key: client.ip, limits: 3/h, cost: 'request.path == "/free" ? 0 : 1' }]`, []string{"GET /free 2", "GET / 4", "GET /free"}},
	"sliding":          {`policies: [{ name: a, key: client.ip, limits: { rate: 4/h, algorithm: sliding_window } }, { name: b, key: client.ip, limits: { rate: 3/d, algorithm: sliding_log } }]`, []string{"GET / 5"}},
	"failures":         {`policies: [{ name: login, key: client.ip, limits: 2/h, count: failures, failures: [401, 5xx] }]`, []string{"GET /?status=401", "GET /?status=500", "GET /"}},
	"a text":           {`policies: [{ name: api, key: client.ip, limits: 1/h, on_denied: { status: 418, body: "später\n", content_type: "text/html; charset=utf-8", headers: { X-Help: "https://example.com/?a=b", Cache-Control: "max-age=1" } } }]`, []string{"GET / 2", "HEAD /", "POST /"}},
	"a plain text":     {`policies: [{ name: api, key: client.ip, limits: 1/h, on_denied: { body: "wait" } }]`, []string{"GET / 2", "HEAD /"}},
	"a redirect":       {`policies: [{ name: api, key: client.ip, limits: 1/h, on_denied: { redirect: "/busy?x=1" } }]`, []string{"GET / 2", "HEAD /"}},
	"another redirect": {`policies: [{ name: api, key: client.ip, limits: 1/h, on_denied: { redirect: "https://example.com/busy", status: 307, headers: { X-A: b } } }]`, []string{"GET / 2", "POST /"}},
	"200":              {`policies: [{ name: api, key: client.ip, limits: 1/h, on_denied: { status: 200, body: "{}", content_type: application/json } }]`, []string{"GET / 2"}},
	"404":              {`policies: [{ name: api, key: client.ip, limits: 1/h, on_denied: { status: 404 } }]`, []string{"GET / 2"}},
	"slots":            {`policies: [{ name: api, key: client.ip, limits: 2 concurrency }, { name: hour, key: client.ip, limits: 5/h }]`, []string{"GET /"}},
	"no slots":         {`policies: [{ name: api, key: client.ip, limits: 2 concurrency, cost: 'request.path == "/dear" ? 3 : 1' }]`, []string{"GET /dear 2"}},
	"off":              {"gateway: { headers: \"off\" }\n" + `policies: [{ name: api, key: client.ip, limits: 1/h }]`, []string{"GET / 2"}},
	"legacy":           {"gateway: { headers: legacy }\n" + `policies: [{ name: api, key: client.ip, limits: [2/h, 4/d] }]`, []string{"GET / 3"}},
	"draft-08":         {"gateway: { headers: draft-08 }\n" + `policies: [{ name: api, key: client.ip, limits: [2/h, 7/d burst 3] }]`, []string{"GET / 4"}},
	"large numbers":    {`policies: [{ name: api, key: client.ip, limits: [1000000000000/d, 3/h] }]`, []string{"GET / 4"}},
	"shadow":           {`policies: [{ name: try, mode: shadow, key: client.ip, limits: 1/h }, { name: api, key: client.ip, limits: 3/h }]`, []string{"GET / 4"}},
}

// startGoServer starts a net/http server with the same policies and its state in another
// database of the same Redis.
func startGoServer(t *testing.T, d *site, policies string) *httptest.Server {
	t.Helper()
	f, err := weirfile.Parse("weir.yaml", []byte(policies))
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: d.redis.Addr, DB: 1})
	t.Cleanup(func() { client.Close() })
	store, err := redisstore.New(goredis.New(client), redisstore.Config{Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	m, err := httplimit.New(store, f.Policies, httplimit.Config{Fields: f.Gateway.Fields})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(m.Wrap(d.upstream))
	t.Cleanup(s.Close)
	return s
}

// openReservations is a script that counts the reservations of a database that are not settled.
// A settled one has a negative deadline.
const openReservations = `redis.call('SELECT', ARGV[1])
local n = 0
for _, key in ipairs(redis.call('KEYS', '*:deadlines')) do n = n + redis.call('ZCOUNT', key, 0, '+inf') end
return n`

// awaitSettled waits until no reservation of a database is open. Both servers settle after the
// response, so the next request may find a reservation that the last one still holds.
func (d *site) awaitSettled(t *testing.T, database int) {
	t.Helper()
	redistest.Await(t, "settled reservations", func() error {
		if n := d.redis.Do(t, "EVAL", openReservations, 0, database); n != int64(0) {
			return fmt.Errorf("%v reservations are open", n)
		}
		return nil
	})
}

// responseTrace returns the responses to requests in order, without headers that identify the
// server, whose state is in a database of d.redis. Each request is settled before the next.
func (d *site) responseTrace(t *testing.T, base string, database int, requests []string) []string {
	t.Helper()
	var trace []string
	for _, text := range requests {
		var method, target string
		n := 1
		fmt.Sscan(text, &method, &target, &n)
		for range n {
			r, err := http.NewRequestWithContext(context.Background(), method, base+target, nil)
			if err != nil {
				t.Fatal(err)
			}
			if method == http.MethodPost {
				r, _ = http.NewRequestWithContext(context.Background(), method, base+target, strings.NewReader("a body"))
			}
			res, err := d.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			a := readSiteResponse(t, res)
			maps.DeleteFunc(a.header, func(name string, _ []string) bool {
				return name == "Date" || name == "Server" || name == "Connection"
			})
			trace = append(trace, fmt.Sprintf("%s %s: %d %v %q", method, target, a.status, a.header, a.body))
			d.awaitSettled(t, database)
		}
	}
	return trace
}

// testSiteSame checks that nginx responds like package httplimit, byte for byte.
func testSiteSame(t *testing.T, weir string) {
	for name, c := range sameCases {
		t.Run(name, func(t *testing.T) {
			d := startSite(t, weir, c.policies, "")
			s := startGoServer(t, d, c.policies)
			redistest.Await(t, "the same responses", func() error {
				began := time.Now()
				got := d.responseTrace(t, "http://"+d.Addr, 0, c.requests)
				want := d.responseTrace(t, s.URL, 1, c.requests)
				if reflect.DeepEqual(got, want) {
					return nil
				}
				err := fmt.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				ended := time.Now()
				if ended.Sub(began) < 800*time.Millisecond && ended.Unix() == began.Unix() {
					t.Fatal(err)
				}
				d.redis.Do(t, "FLUSHALL") // the reset may have changed by a second, as windows end on whole seconds
				return err
			})
			d.clean(t)
		})
	}
}
