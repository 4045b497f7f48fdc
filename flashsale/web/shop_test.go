package web_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/webtest"
	"github.com/floodweir/weir/flashsale/web"
)

// TestEarly checks what the phase alone decides, without a call to the service.
func TestEarly(t *testing.T) {
	never := &desk{
		join: func(string, string, string) (sale.QueueStatus, error) { panic("the desk was asked for a turn") },
		buy:  func(string, string, string, string) (sale.BuyResult, error) { panic("the desk was asked for a unit") },
	}
	for _, c := range []struct {
		name   string
		at     time.Duration // after the start
		change func(v *sale.View)
		turn   string // of POST …/ticket, and of GET without a session; empty if the desk is asked
		buy    string // of POST …/orders with no token
		own    string // with a token of one's own
	}{
		{"a moment before", -time.Millisecond, nil, "425 L0 not_started", "425 L0 not_started", "425 L0 not_started"},
		{"centuries before", -292 * 365 * 24 * time.Hour, nil, "425 L0 not_started", "425 L0 not_started", "425 L0 not_started"},
		{"the start", 0, nil, "", "", ""},
		{"the last moment", time.Hour - time.Millisecond, nil, "", "", ""},
		{"the end", time.Hour, nil, "410 L0 ended", "410 L0 ended", ""},
		{"before the lobby", -2 * time.Minute, shuffled, "425 L0 not_started", "425 L0 not_started", "425 L0 not_started"},
		{"in the lobby", -time.Minute, shuffled, "", "425 L0 not_started", "425 L0 not_started"},
		{"paused", time.Minute, func(v *sale.View) { v.Sale.State = sale.Paused }, "503 L0 paused", "503 L0 paused", ""},
		{"killed", time.Minute, func(v *sale.View) { v.Sale.State = sale.Ended }, "410 L0 ended", "410 L0 ended", ""},
		{"all paid", time.Minute, func(v *sale.View) { v.Sale.Paid = 10 }, "410 L0 sold_out", "410 L0 sold_out", ""},
		{"all taken, a line", time.Minute, func(v *sale.View) { v.Free = 0 }, "", "409 L0 all_taken", ""},
		{"all taken, no line", time.Minute, func(v *sale.View) { v.Free, v.Sale.Queue = 0, sale.Direct }, "409 L0 all_taken", "409 L0 all_taken", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := webtest.View()
			if c.change != nil {
				c.change(&v)
			}
			never.view = func(string) (sale.View, error) { return v, nil }
			s := open(t, never, layers.Config{})
			// The time is the sale's, whatever this process's clock says.
			s.now, v.Now = webtest.Start().Add(time.Minute), webtest.Start().Add(c.at)
			asked := func(method, path, user, body string) (got string) {
				defer func() {
					if recover() != nil {
						got = ""
					}
				}()
				r := s.request(method, path, user, body)
				for _, off := range []time.Duration{-time.Hour, time.Hour} { // the clock of a client has no effect
					r.Header.Add("Date", s.now.Add(off).Format(http.TimeFormat))
				}
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				return webtest.Summary(w)
			}
			// Users with a session may have a ticket or a unit; here they have none.
			own := c.turn
			if !strings.HasPrefix(c.turn, "425") {
				own = ""
			}
			for _, ask := range []struct{ method, user, want string }{{"POST", "u", c.turn}, {"GET", "u", own}, {"HEAD", "u", own}, {"GET", "", cmp.Or(c.turn, "401  no_session")}} {
				if got := asked(ask.method, "/api/sales/a1/ticket", ask.user, ""); got != ask.want && (ask.method != "HEAD" || got[:3] != ask.want[:3]) {
					t.Errorf("%s ticket of %q: %q, want %q", ask.method, ask.user, got, ask.want)
				}
			}
			for user, want := range map[string]string{"": c.buy, "u": c.own, "other": c.buy} {
				got := asked("POST", "/api/sales/a1/orders", user, `{"token":"`+s.token("u", "a1")+`"}`)
				if user != "u" && want == "" {
					continue // the desk, or no session
				}
				if got != want {
					t.Errorf("order of %q: %q, want %q", user, got, want)
				}
			}
			if c.buy != "" {
				for _, body := range []string{"", "{", `{"token":"x"}`, `{"token":"` + s.token("u", "b2") + `"}`, `{"token":"` + s.token("v", "a1") + `"}`} {
					if got := asked("POST", "/api/sales/a1/orders", "u", body); got != c.buy {
						t.Errorf("order with %.20q: %q, want %q", body, got, c.buy)
					}
				}
			}
		})
	}
}

func shuffled(v *sale.View) { v.Sale.Queue, v.Sale.Lobby = sale.Shuffled, time.Minute }

func TestOnlyTheSessionSaysWho(t *testing.T) {
	var users []string
	d := selling()
	d.join = func(user, _, _ string) (sale.QueueStatus, error) {
		users = append(users, user)
		return sale.QueueStatus{State: sale.Waiting}, nil
	}
	s := open(t, d, layers.Config{Policies: wide()})
	r := s.request("POST", "/api/sales/a1/ticket?user=eve", "alice", `{"place":""}`)
	for _, name := range []string{layers.UserHeader, "X-User-Id", "X-Forwarded-User", "Remote-User", "Authorization", "flashsale-user"} {
		r.Header.Add(name, "eve")
	}
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Code != 200 || len(users) != 1 || users[0] != "alice" {
		t.Errorf("%d, users %v, want alice", w.Code, users)
	}
	if got := webtest.Summary(s.ask("POST", "/api/sales/a1/ticket", "alice", `{"user":"eve"}`)); got != "400  invalid" {
		t.Errorf("a user in the body: %q", got)
	}
	later := webtest.Start().Add(time.Hour)
	for name, text := range map[string]string{
		"expired": s.keys.Session(pass.Session{User: "alice", Expires: webtest.Start()}),
		"office":  s.keys.Office(pass.Session{User: "alice", Expires: later}),
		"ticket":  s.keys.Ticket(pass.Ticket{User: "alice"}),
		"empty":   "", "plain": "alice",
	} {
		r := httptest.NewRequest("GET", "/api/orders", nil)
		r.Header.Set("Cookie", "fs_session="+text)
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
			t.Errorf("a session that is %s: %d, want 401", name, w.Code)
		}
	}
	other, err := pass.NewKeys([]byte(strings.Repeat("k", pass.SecretSize)))
	if err != nil {
		t.Fatal(err)
	}
	r = httptest.NewRequest("GET", "/api/orders", nil)
	r.Header.Set("Cookie", "fs_session="+other.Session(pass.Session{User: "alice", Expires: later}))
	w = httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
		t.Errorf("a session of other keys: %d, want 401", w.Code)
	}
}

// TestFromOneAddress makes 10,000 accounts from one address.
func TestFromOneAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, selling(), layers.Config{})
		users := map[string]bool{}
		for i := range 10_000 {
			r := httptest.NewRequest("POST", "/api/session", nil)
			r.Header.Set("X-Forwarded-For", fmt.Sprintf("198.51.%d.%d", i>>8, i&255))
			w := httptest.NewRecorder()
			if s.ServeHTTP(w, r); w.Code == http.StatusCreated {
				users[w.Body.String()] = true
			}
		}
		if n := s.layers.Counts()[sale.L1][layers.TooMany]; len(users) != 40 || n != 9960 {
			t.Errorf("%d accounts, %d refused by L1, want 40 and 9960", len(users), n)
		}
	})
}

// TestTheSameAnswer asks again when the reservation has become something else.
func TestTheSameAnswer(t *testing.T) {
	d := selling()
	v := webtest.View()
	again := false // bought before
	r := sale.Receipt{Receipt: "abc", Sale: v.Sale, State: sale.Reserved, At: webtest.Start(), PayBy: webtest.Start().Add(time.Minute)}
	d.buy = func(user, _, token, key string) (sale.BuyResult, error) {
		if user != "u" || key != "k 1" || token == "" {
			t.Errorf("asked with %q %q %q", user, token, key)
		}
		return sale.BuyResult{Receipt: r, Repeated: again}, nil
	}
	s := open(t, d, layers.Config{Policies: wide()})
	ask := func() string {
		q := s.request("POST", "/api/sales/a1/orders", "u", `{"token":"`+s.token("u", "a1")+`"}`)
		q.Header.Set("Idempotency-Key", "k 1")
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, q); w.Code != http.StatusAccepted {
			t.Fatal(webtest.Summary(w))
		}
		return w.Body.String()
	}
	first := ask()
	again = true
	if want := (sale.NetworkUse{Sale: "a1", User: "u", Network: "192.0.2.1"}); !slices.Equal(d.saw, []sale.NetworkUse{want}) {
		t.Errorf("bought from %v, want %v", d.saw, want)
	}
	r.State, r.Refunds = sale.Paid, 1
	s.now = s.now.Add(time.Minute)
	if second := ask(); second != first {
		t.Errorf("asked again: %s, want %s", second, first)
	}
	if len(d.saw) != 1 {
		t.Errorf("asked again, it was noted again: %v", d.saw)
	}
}

func TestErrorsOfTheDesk(t *testing.T) {
	d := selling()
	s := open(t, d, layers.Config{Policies: wide()})
	for _, c := range []struct {
		err  error
		want string
	}{
		{sale.ErrNotFound, "404  not_found"},
		{fmt.Errorf("shop: x: %w", sale.ErrNotFound), "404  not_found"},
		{fmt.Errorf("%w: place: want one", sale.ErrInvalid), "400  invalid"},
		{fmt.Errorf("x: %w", sale.ErrConflict), "409  conflict"},
		{fmt.Errorf("x: %w: %w", sale.ErrUnavailable, io.EOF), "503  unavailable"},
		{sale.ErrStale, "503  unavailable"},
		{errors.New("a secret of the house"), "503  unavailable"},
	} {
		d.orders = func(string) ([]sale.Receipt, error) { return nil, c.err }
		w := s.ask("GET", "/api/orders", "u", "")
		if got := webtest.Summary(w); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
		if strings.Contains(w.Body.String(), "secret") {
			t.Errorf("a response contains an internal error: %s", w.Body)
		}
		if w.Code == 503 && w.Header().Get("Retry-After") == "" {
			t.Error("503 without Retry-After")
		}
	}
	for _, c := range []struct {
		layer  sale.Layer
		reason sale.Reason
		want   string
	}{
		{sale.L3, sale.QueueFull, "429 L3 queue_full"}, {sale.L3, sale.NoAdmission, "429 L3 no_admission"},
		{sale.LS, sale.PerUserLimit, "409 stock per_user"}, {sale.LS, sale.IsAllTaken, "409 stock all_taken"},
		{sale.L3, sale.NotAdmitted, "403 L3 not_admitted"}, {sale.L3, sale.AdmissionExpired, "403 L3 turn_passed"},
		{sale.L3, sale.BadToken, "403 L3 bad_token"}, {sale.L3, sale.IsSoldOut, "410 L3 sold_out"},
	} {
		d.join = func(string, string, string) (sale.QueueStatus, error) {
			return sale.QueueStatus{Reason: c.reason, Layer: c.layer, RetryAfter: 1200 * time.Millisecond}, nil
		}
		w := s.ask("POST", "/api/sales/a1/ticket", "u", "")
		if got := webtest.Summary(w); got != c.want || w.Header().Get("Retry-After") != "2" {
			t.Errorf("%s: %q with Retry-After %q, want %q and 2", c.reason, got, w.Header().Get("Retry-After"), c.want)
		}
	}
	requests, admitted, refused := s.layers.Totals()
	if requests != 15 || admitted != 7 || refused != 8 {
		t.Errorf("%d requests, %d admitted, %d refused, want 15, 7, 8", requests, admitted, refused)
	}
}

// TestTheAccountOfAShop sends many requests and compares the counters.
func TestTheAccountOfAShop(t *testing.T) {
	d := selling()
	var turn atomic.Int64
	d.join = func(string, string, string) (sale.QueueStatus, error) {
		if turn.Add(1)%3 == 0 {
			return sale.QueueStatus{Reason: sale.QueueFull, Layer: sale.L3, RetryAfter: time.Second}, nil
		}
		return sale.QueueStatus{State: sale.Waiting}, nil
	}
	d.view = func(id string) (sale.View, error) {
		v := webtest.View()
		if id == "gone" {
			v.Sale.Paid = v.Sale.Stock
		}
		return v, nil
	}
	s := open(t, d, layers.Config{})
	server := httptest.NewServer(s)
	defer server.Close()
	var mu sync.Mutex
	saw := map[string]int64{}
	var done sync.WaitGroup
	for g := range 16 {
		done.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for i := range 100 {
				path := []string{"/api/sales/gone/ticket", "/api/sales/a1/ticket", "/api/sales/a1", "/api//x", "/nothing", "/api/session"}[i%6]
				r, err := http.NewRequestWithContext(t.Context(), []string{"POST", "GET"}[i%2], server.URL+path, http.NoBody)
				if err != nil {
					t.Error(err)
					return
				}
				r.Header = s.request("POST", "/", fmt.Sprint("u", g%4), "").Header
				resp, err := client.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				mu.Lock()
				saw[resp.Header.Get(layers.LayerHeader)]++
				mu.Unlock()
			}
		})
	}
	done.Wait()
	requests, admitted, refused := s.layers.Totals()
	counted := map[string]int64{"": admitted}
	for layer, reasons := range s.layers.Counts() {
		for _, n := range reasons {
			counted[string(layer)] += n
		}
	}
	if requests != 1600 || admitted+refused != 1600 {
		t.Errorf("issued 1600: %d requests, %d admitted, %d refused", requests, admitted, refused)
	}
	if fmt.Sprint(counted) != fmt.Sprint(saw) {
		t.Errorf("counted %v, the clients saw %v", counted, saw)
	}
	t.Logf("issued 1600 = %v, difference %d", counted, 1600-admitted-refused)
}

// TestSlowClients checks that a client that does not send its body takes no slot of the bulkhead.
func TestSlowClients(t *testing.T) {
	file := strings.Replace(string(wide()), "bulkhead:", "bulkhead: { max: 1, max_waiters: 1, wait: 1ms } #", 1)
	s := open(t, selling(), layers.Config{Policies: []byte(file)})
	server := httptest.NewServer(s)
	defer server.Close()
	session := s.keys.Session(pass.Session{User: "u", Expires: webtest.Start().Add(time.Hour)})
	for range 20 {
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_, err = fmt.Fprintf(c, "POST /api/orders/abc/cancel HTTP/1.1\r\nHost: x\r\nCookie: fs_session=%s\r\nFlashsale-Request: 1\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{", session)
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 50 {
		resp, err := http.Get(server.URL + "/api/time")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%d while others are slow, want 200", resp.StatusCode)
		}
	}
}

func TestServerHasBounds(t *testing.T) {
	s := web.Server(http.NotFoundHandler())
	if s.ReadHeaderTimeout <= 0 || s.ReadTimeout <= 0 || s.WriteTimeout <= 0 || s.IdleTimeout <= 0 || s.MaxHeaderBytes <= 0 {
		t.Errorf("a server without a bound: %+v", s)
	}
}

func TestNewShopWantsItsParts(t *testing.T) {
	if _, err := web.NewShop(web.ShopConfig{}); err == nil {
		t.Error("a shop of nothing")
	}
}

// TestUserHeaderFromClient sends the header by which policies know a user.
func TestUserHeaderFromClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, selling(), layers.Config{})
		for i := range 20 {
			r := httptest.NewRequest("GET", "/api/sales/a1", nil)
			r.RemoteAddr = fmt.Sprintf("198.51.100.%d:1", i)
			r.Header[layers.UserHeader] = []string{"alice"}
			s.ServeHTTP(httptest.NewRecorder(), r)
		}
		if got := webtest.Summary(s.ask("GET", "/api/sales/a1", "alice", "")); got != "200" {
			t.Errorf("alice, after others said that they were she: %q", got)
		}
	})
}

// TestWhoseTime checks that a process whose clock is ahead returns the time of the inventory,
// with which countdowns start.
func TestWhoseTime(t *testing.T) {
	s := open(t, &desk{time: webtest.Start().Add(-time.Second)}, layers.Config{})
	s.now = webtest.Start().Add(time.Hour)
	for path, want := range map[string]string{
		"/api/time":  `{"now":"2026-11-11T11:59:59.000Z"}`,
		"/api/sales": `{"now":"2026-11-11T11:59:59.000Z","sales":[]}`,
	} {
		if w := s.ask("GET", path, "", ""); w.Code != 200 || strings.TrimSpace(w.Body.String()) != want {
			t.Errorf("%s: %d %s, want %s", path, w.Code, w.Body, want)
		}
	}
}
