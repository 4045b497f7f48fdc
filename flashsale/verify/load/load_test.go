package load_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/verify/calllog"
	"github.com/floodweir/weir/flashsale/verify/load"
)

func cookie(user string) string { return "c-" + user }

func run(t *testing.T, c load.Config) load.Result {
	t.Helper()
	r, err := load.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", r.Text())
	return r
}

func TestOpen(t *testing.T) {
	shop := newFakeShop(100)
	var log bytes.Buffer
	r := run(t, load.Config{URL: shop.start(t).URL, Sale: "s1", Users: 2000, Connections: 32, Session: cookie,
		Pay: 50, Cancel: 10, Addresses: 1000, Claim: true, Observations: &log, Processes: map[string]int{"self": os.Getpid()}})
	if r.Bound || r.Bought != 100 || r.SoldOut != 1900 || r.Active != 0 || r.GaveUp != 0 || len(r.Faults) != 0 {
		t.Errorf("100 units for 2000 users: %+v", r)
	}
	if r.Paid < 30 || r.Paid > 70 || r.Canceled < 1 || r.Canceled > 30 {
		t.Errorf("of 100 buyers %d paid and %d cancelled, want about 50 and 10", r.Paid, r.Canceled)
	}
	if r.Requests != shop.calls.Load() || r.Latency.Count != r.Requests || r.Status[202] != 100 || r.Reasons["sold_out"] == 0 {
		t.Errorf("%d requests, %d with a latency, the shop had %d; %v", r.Requests, r.Latency.Count, shop.calls.Load(), r.Status)
	}
	if r.Reserved == 0 || r.Drained < r.Reserved || r.Drain == 0 || r.FirstSoldOut == 0 || r.Busy == 0 || r.PerSecond == 0 {
		t.Errorf("reserved after %s, drained after %s, gone after %s, busy %s", r.Reserved, r.Drained, r.FirstSoldOut, r.Busy)
	}
	if r.Servers["self"].RSS == 0 || r.CPU == 0 || r.Machine.Processors == 0 {
		t.Errorf("used: %+v, %s by the generator", r.Servers, r.CPU)
	}
	if _, ok := shop.sources.Load("203.0.113.9, 10.0.3.231"); !ok {
		t.Error("user 999: no request with its address")
	}
	seen, err := calllog.Read(&log)
	if err != nil {
		t.Fatal(err)
	}
	actions := map[calllog.Action]int{}
	for _, o := range seen {
		actions[o.Action]++
		if o.User == "" || o.Sale != "s1" {
			t.Fatalf("observation without a user: %+v", o)
		}
	}
	if actions[calllog.Join] != 2000 || actions[calllog.Leave] != 2000 || actions[calllog.Buy] != int(r.Calls["buy"].Count) {
		t.Errorf("observations: %v", actions)
	}
}

// TestProofOfWork checks that each user solves its work once and buys, and that a shop which
// accepts no work is reported.
func TestProofOfWork(t *testing.T) {
	shop := newFakeShop(20)
	shop.bits = 8
	r := run(t, load.Config{URL: shop.start(t).URL, Sale: "s1", Users: 100, Connections: 8, Session: cookie})
	if r.Bound || r.Bought != 20 || r.SoldOut != 80 || len(r.Faults) != 0 || r.Reasons["work_due"] < 90 || r.Reasons["work_due"] > 100 {
		t.Errorf("20 units for 100 users with proof of work: %+v", r)
	}
	shop = newFakeShop(20)
	shop.bits, shop.rejectsWork = 8, true
	r = run(t, load.Config{URL: shop.start(t).URL, Sale: "s1", Users: 10, Connections: 2, Session: cookie})
	if r.Bought != 0 || r.SoldOut != 10 || r.Faults["proof of work not accepted or not solvable"] != 10 {
		t.Errorf("shop that accepts no work: %+v", r)
	}
	shop = newFakeShop(20)
	shop.bits = 1 << 20
	r = run(t, load.Config{URL: shop.start(t).URL, Sale: "s1", Users: 10, Connections: 2, Session: cookie})
	if r.Bought != 0 || r.Faults["proof of work not accepted or not solvable"] != 10 {
		t.Errorf("shop with unsolvable work: %+v", r)
	}
}

// TestClicks checks that a user repeats a click whose response is lost with its key, and pays for
// its unit when all are taken. Such a click is recorded as one that may have bought.
func TestClicks(t *testing.T) {
	shop := newFakeShop(20)
	shop.clicks = true
	var log bytes.Buffer
	r := run(t, load.Config{URL: shop.start(t).URL, Sale: "s1", Profile: load.Drain, Click: true, Users: 20, Connections: 4, Session: cookie, Pay: 100, Observations: &log})
	if r.Paid != 20 || r.SoldOut != 0 || len(r.Faults) != 0 || r.Calls["look"].Count != 0 || r.Drained == 0 {
		t.Errorf("20 units for 20 users: %+v", r)
	}
	seen, err := calllog.Read(&log)
	if err != nil {
		t.Fatal(err)
	}
	statuses := map[int]int{}
	for _, o := range seen {
		if o.Action == calllog.Buy {
			statuses[o.Status]++
		}
	}
	if statuses[503] != 20 || statuses[200] != 20 {
		t.Errorf("recorded purchases by status %v, want 20 of 503 and 200", statuses)
	}
}

// TestQuantity checks that users order several units, and what is left if those are fewer.
func TestQuantity(t *testing.T) {
	shop := newFakeShop(11)
	r := run(t, load.Config{URL: shop.start(t).URL, Sale: "s1", Users: 10, Connections: 1, Session: cookie, Quantity: 3, Pay: 100})
	if r.Bought != 4 || r.Paid != 4 || r.SoldOut != 6 || len(r.Faults) != 0 || fmt.Sprint(shop.units) != "[3 3 3 2]" {
		t.Errorf("11 units in orders of 3: %v, %+v", shop.units, r)
	}
	if _, err := load.Run(t.Context(), load.Config{URL: shop.start(t).URL, Sale: "s1", Quantity: 11}); err == nil || !strings.Contains(err.Error(), "quantity 11: want 1 to 10") {
		t.Errorf("quantity 11: %v", err)
	}
}

func TestSessions(t *testing.T) {
	shop := newFakeShop(10)
	r := run(t, load.Config{URL: shop.start(t).URL, Sale: "s1", Users: 50, Connections: 4})
	if r.Calls["session"].Count != 50 || r.Bought != 10 || r.SoldOut != 40 {
		t.Errorf("%+v", r)
	}
}

func TestBacklog(t *testing.T) {
	shop := newFakeShop(20)
	polls := 0
	r := run(t, load.Config{URL: shop.start(t).URL, Sale: "s1", Profile: load.Drain, Users: 20, Connections: 4, Session: cookie,
		Backlog: func(context.Context) (int64, error) {
			polls++
			if polls == 1 {
				return 0, io.ErrUnexpectedEOF
			}
			return int64(max(0, 4-polls)), nil
		}})
	if r.Bought != 20 || r.Drained == 0 || polls < 4 || r.Calls["look"].Count != 0 {
		t.Errorf("%d polls: %+v", polls, r)
	}
}

func TestSoldOut(t *testing.T) {
	shop := newFakeShop(0)
	r := run(t, load.Config{URL: shop.start(t).URL, Sale: "s1", Profile: load.SoldOut, Users: 100, Connections: 8, Session: cookie, Requests: 5000, Sampled: true, Observations: io.Discard})
	if !r.Bound || r.Requests != 5000 || r.Refused != 5000 || r.Reasons["sold_out"] != 5000 || r.Layers["L0"] != 5000 || r.Due.Count != 0 {
		t.Errorf("%+v", r)
	}
}

func TestWaiting(t *testing.T) {
	shop := newFakeShop(10)
	r := run(t, load.Config{URL: shop.start(t).URL, Sale: "s1", Profile: load.Waiting, Users: 100, Connections: 8, Session: cookie,
		Requests: 400, MaxPoll: 50 * time.Millisecond})
	if !r.Bound || r.Bought != 0 || r.Active != 100 || r.Calls["buy"].Count != 0 || r.Calls["poll"].Count < 200 {
		t.Errorf("%+v", r)
	}
}

func TestMixed(t *testing.T) {
	shop := newFakeShop(30)
	var log bytes.Buffer
	r := run(t, load.Config{URL: shop.start(t).URL, Sale: "s1", Profile: load.Mixed, Users: 60, Connections: 4, Session: cookie, Observations: &log, MaxPoll: 20 * time.Millisecond})
	if len(r.Faults) != 0 || r.Bought != 30 || r.SoldOut != 30 || r.Reasons["bad_token"] == 0 {
		t.Errorf("%+v", r)
	}
	seen, err := calllog.Read(&log)
	if err != nil {
		t.Fatal(err)
	}
	misuses := map[calllog.Misuse]int{}
	for _, o := range seen {
		misuses[o.Misuse]++
	}
	if misuses[calllog.Forged] == 0 || misuses[calllog.Stolen] == 0 || misuses[calllog.Replayed] == 0 {
		t.Errorf("recorded misuses: %v", misuses)
	}
}

func TestMixedDetectsFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(*fakeShop)
		want  string
	}{
		{"every click buys", func(s *fakeShop) { s.duplicates = true }, "repeated order returned another receipt"},
		{"any token is accepted", func(s *fakeShop) { s.anyToken = true }, "accepted a token that is damaged"},
		{"refusals with 200", func(s *fakeShop) { s.refusesWith200 = true }, "refusal with a success status"},
	} {
		t.Run(c.name, func(t *testing.T) {
			shop := newFakeShop(1000) // more than all clicks take
			c.fault(shop)
			r := run(t, load.Config{URL: shop.start(t).URL, Sale: "s1", Profile: load.Mixed, Users: 10, Connections: 2, Session: cookie,
				Duration: 5 * time.Second, MaxPoll: 10 * time.Millisecond})
			if r.Faults[c.want] == 0 {
				t.Errorf("faults %v, want %q", r.Faults, c.want)
			}
		})
	}
}

func TestPatience(t *testing.T) {
	for _, c := range []struct {
		withoutLayer bool
		want         map[string]int64
	}{{false, nil}, {true, map[string]int64{"429 without a layer": 30}}} {
		shop := newFakeShop(1)
		shop.withoutLayer = c.withoutLayer
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { shop.refuse(w, 429, "too_many", "L1") }))
		t.Cleanup(srv.Close)
		r := run(t, load.Config{URL: srv.URL, Sale: "s1", Users: 10, Connections: 2, Session: cookie, Patience: 3})
		if r.GaveUp != 10 || r.Status[429] != 30 || fmt.Sprint(r.Faults) != fmt.Sprint(c.want) {
			t.Errorf("withoutLayer %v: %+v, want faults %v", c.withoutLayer, r, c.want)
		}
		if !c.withoutLayer && r.Layers["L1"] != 30 {
			t.Errorf("layers %v", r.Layers)
		}
	}
}

// TestOver checks that users arrive over the period.
func TestOver(t *testing.T) {
	shop := newFakeShop(10)
	r := run(t, load.Config{URL: shop.start(t).URL, Sale: "s1", Users: 200, Connections: 4, Session: cookie, Over: 400 * time.Millisecond})
	if r.Bought != 10 || r.SoldOut != 190 || r.Busy < 390*time.Millisecond {
		t.Errorf("%+v", r)
	}
}

// listen returns the URL of a server that calls serve with each connection.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return "http://" + l.Addr().String()
}

// TestBrokenServers checks that a run ends whatever the server returns.
func TestBrokenServers(t *testing.T) {
	for name, answer := range map[string]string{
		"silent": "", "no HTTP": "hello\r\n\r\n", "cut off": "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{",
		"too large": "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{", "no JSON": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n<>",
		"status 999": "HTTP/1.1 999 X\r\nContent-Length: 2\r\n\r\n{}", "negative": "HTTP/1.1 200 OK\r\nContent-Length: 23\r\n\r\n{\"poll_after_ms\":-1000}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := listen(t, func(c net.Conn) {
				defer c.Close()
				if _, err := c.Read(make([]byte, 4096)); err == nil && answer != "" {
					io.WriteString(c, answer)
					return
				}
				io.Copy(io.Discard, c)
			})
			began := time.Now()
			r := run(t, load.Config{URL: url, Sale: "s1", Users: 4, Connections: 2, Session: cookie, Duration: time.Second})
			if took := time.Since(began); took > 25*time.Second { // a response may take 30 s
				t.Errorf("ended after %s, want about a second", took)
			}
			if r.Bought != 0 || (len(r.Errors) == 0 && len(r.Faults) == 0 && name != "silent") {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestStoppedRun(t *testing.T) {
	shop := newFakeShop(10)
	ctx, stop := context.WithCancel(t.Context())
	url := shop.start(t).URL
	go func() {
		for tick := time.Tick(time.Millisecond); shop.calls.Load() <= 10; { // one of 10 has its response
			<-tick
		}
		stop()
	}()
	r, err := load.Run(ctx, load.Config{URL: url, Sale: "s1", Profile: load.Waiting, Users: 10, Session: cookie})
	if err == nil || r.Requests == 0 {
		t.Errorf("%v, %+v", err, r)
	}
	if _, err := load.Run(ctx, load.Config{URL: shop.start(t).URL, Sale: "s1", At: time.Now().Add(time.Hour)}); err == nil {
		t.Error("Run ended before the start without an error")
	}
}

func TestConfigFaults(t *testing.T) {
	_, err := load.Run(t.Context(), load.Config{URL: "https://shop.example/x", Sale: "../s", Profile: "flood", Users: -1, Connections: 20_000, Pay: 90, Cancel: 20,
		Duration: 2 * time.Hour, Prefix: "a b", Addresses: 1 << 30, Patience: -1, Requests: -4, MaxPoll: -1, Over: -1})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"url", "sale", "profile", "users", "connections", "cancel 20", "duration", "prefix", "addresses", "patience", "requests", "max poll", "over"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant an error about %s", err, want)
		}
	}
	for url, ok := range map[string]bool{"http://127.0.0.1:1": true, "http://[::1]:1": true, "http://localhost:1": true,
		"http://127.0.0.1.evil.example:1": false, "http://192.0.2.1:1": false, "http://shop.example": false, "http://u:p@127.0.0.1:1": false, "127.0.0.1:1": false, "": false} {
		_, err := load.Run(t.Context(), load.Config{URL: url, Sale: "s1", Users: 1, Duration: time.Millisecond, Session: cookie})
		if (err == nil) != ok {
			t.Errorf("url %q: %v, want accepted %v", url, err, ok)
		}
	}
}

func TestJSON(t *testing.T) {
	r := run(t, load.Config{URL: newFakeShop(1).start(t).URL, Sale: "s1", Users: 3, Session: cookie, Mode: "fake", Work: "none"})
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back load.Result
	if err := json.Unmarshal(b, &back); err != nil || back.Requests != r.Requests || back.Status[202] != 1 || back.Mode != "fake" {
		t.Errorf("%v: %s", err, b)
	}
}
