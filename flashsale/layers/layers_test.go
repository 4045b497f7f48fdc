package layers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/memstore"
)

func store(t *testing.T) weir.Store {
	t.Helper()
	s, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func made(t *testing.T, c layers.Config) *layers.Layers {
	t.Helper()
	if c.Store == nil {
		c.Store = store(t)
	}
	l, err := layers.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func ok(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// from is a request of a user from an address.
func from(method, path, addr, user string) *http.Request {
	r := httptest.NewRequest(method, path, nil)
	r.RemoteAddr = addr
	if user != "" {
		r.Header.Set(layers.UserHeader, user)
	}
	return r
}

// passes counts how many of n requests are admitted, and which layers refused the others.
func passes(l *layers.Layers, n int, next func(i int) *http.Request) (admitted int, by map[string]int) {
	by = map[string]int{}
	for i := range n {
		w := httptest.NewRecorder()
		l.Serve(w, next(i), ok)
		if w.Code == http.StatusNoContent {
			admitted++
		} else {
			by[fmt.Sprint(w.Code, " ", w.Header().Get(layers.LayerHeader))]++
		}
	}
	return admitted, by
}

func TestLimitsOfTheDefaultFile(t *testing.T) {
	const seller = "/api/sales/a1/ticket"
	for _, c := range []struct {
		name string
		next func(i int) *http.Request
		n    int
		want int
		by   string
	}{
		{"an address", func(int) *http.Request { return from("GET", "/api/time", "192.0.2.1:1", "") }, 100, 40, "429 L1"},
		{"many users of an address", func(i int) *http.Request {
			return from("POST", "/api/session", "192.0.2.2:1", fmt.Sprint("u", i))
		}, 10_000, 40, "429 L1"},
		{"a network of IPv6", func(i int) *http.Request {
			return from("GET", "/api/time", fmt.Sprintf("[2001:db8::%x:1]:1", i), "")
		}, 100, 40, "429 L1"},
		// Three browsers behind one address come at once: the page and what it is made of.
		{"the pages of an address", func(i int) *http.Request {
			return from("GET", []string{"/", "/static/style.css", "/sales/a1", "/orders"}[i%4], "192.0.2.9:1", "")
		}, 1000, 400, "429 L1"},
		{"pages that are none", func(i int) *http.Request { return from("GET", "/nothing", "192.0.2.10:1", "") }, 1000, 400, "429 L1"},
		{"what is the same for all, and who one is", func(i int) *http.Request {
			return from("GET", []string{"/api/time", "/api/session", "/api/sales", "/api/sales/a1"}[i%4], "192.0.2.11:1", "looker")
		}, 40, 40, ""},
		{"orders of a user", func(i int) *http.Request {
			return from("GET", []string{"/api/orders", "/api/orders/r1", "/api/orders/r1/pay", "/api/orders/r1/contact"}[i%4], fmt.Sprintf("198.51.100.%d:1", i), "owner")
		}, 100, 5, "429 L2"},
		{"networks of IPv6", func(i int) *http.Request {
			return from("GET", "/api/time", fmt.Sprintf("[2001:db8:0:%x::1]:1", i), "")
		}, 100, 100, ""},
		{"an address that lies", func(i int) *http.Request {
			r := from("GET", "/api/time", "192.0.2.3:1", "")
			r.Header.Set("X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i))
			r.Header.Set("Forwarded", fmt.Sprintf("for=198.51.100.%d", i))
			r.Header.Set("X-Real-Ip", fmt.Sprintf("198.51.100.%d", i))
			return r
		}, 100, 40, "429 L1"},
		{"a user from many addresses", func(i int) *http.Request {
			return from("GET", seller, fmt.Sprintf("198.51.100.%d:1", i), "user")
		}, 100, 5, "429 L2"},
		{"a user by other spellings", func(i int) *http.Request {
			paths := []string{"/api/sales/a1/ticket", "/API/sales/a1/ticket", "//api//sales/a1/ticket", "/api/./sales/a1/x/../ticket", "/api/sales/a1/ticket/", "/api/sales;x=1/a1/ticket", "/%61pi/sales%2fa1/ticket"}
			return from("GET", paths[i%len(paths)], fmt.Sprintf("198.51.100.%d:1", i), "speller")
		}, 100, 5, "429 L2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				admitted, by := passes(made(t, layers.Config{}), c.n, c.next)
				if admitted != c.want {
					t.Errorf("%d of %d admitted, want %d; refused: %v", admitted, c.n, c.want, by)
				}
				if c.by != "" && by[c.by] != c.n-c.want {
					t.Errorf("refused: %v, want all by %s", by, c.by)
				}
			})
		})
	}
}

func TestForwardedProto(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := made(t, layers.Config{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
		admitted, by := passes(l, 100, func(i int) *http.Request {
			r := from("GET", "/api/time", "10.1.2.3:1", "")
			r.Header.Set("X-Forwarded-For", fmt.Sprintf("203.0.113.9, 198.51.100.%d", i))
			return r
		})
		if admitted != 100 {
			t.Errorf("%d of 100 clients behind a proxy admitted: %v", admitted, by)
		}
		r := from("GET", "/api/time", "10.1.2.3:1", "")
		r.Header.Set("X-Forwarded-Proto", "https")
		if !l.TLS(r) {
			t.Error("https of a trusted proxy is not accepted")
		}
		r.RemoteAddr = "192.0.2.1:1"
		if l.TLS(r) {
			t.Error("https of an untrusted client is accepted")
		}
	})
}

func TestOneOrderAtATime(t *testing.T) {
	l := made(t, layers.Config{})
	inside, leave := make(chan struct{}), make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		l.Serve(httptest.NewRecorder(), from("POST", "/api/sales/a1/orders", "192.0.2.1:1", "u"), func(http.ResponseWriter, *http.Request) {
			close(inside)
			<-leave
		})
	})
	<-inside
	w := httptest.NewRecorder()
	l.Serve(w, from("POST", "/api/sales/a1/orders", "192.0.2.2:1", "u"), ok)
	retry, _ := strconv.Atoi(w.Header().Get("Retry-After"))
	if w.Code != 429 || w.Header().Get(layers.LayerHeader) != "L2" || retry < 1 || retry > 2 {
		t.Errorf("second order under way: %d %v, want 429 of L2 with a Retry-After of 1 or 2: the first takes milliseconds", w.Code, w.Header())
	}
	close(leave)
	done.Wait()
	if n, by := passes(l, 1, func(int) *http.Request { return from("POST", "/api/sales/a1/orders", "192.0.2.2:1", "u") }); n != 1 {
		t.Errorf("the next order was refused: %v", by)
	}
}

// TestALongOrder checks that one that takes longer than the lease of its slot keeps it.
func TestALongOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := made(t, layers.Config{})
		buy := func(addr string, next func(http.ResponseWriter, *http.Request)) int {
			w := httptest.NewRecorder()
			l.Serve(w, from("POST", "/api/sales/a1/orders", addr, "u"), next)
			return w.Code
		}
		var done sync.WaitGroup
		done.Go(func() {
			buy("192.0.2.1:1", func(w http.ResponseWriter, r *http.Request) { time.Sleep(5 * time.Second); ok(w, r) })
		})
		for range 4 {
			time.Sleep(1100 * time.Millisecond)
			if code := buy("192.0.2.2:1", ok); code != 429 {
				t.Errorf("a second order beside one that takes long: %d, want 429", code)
			}
		}
		done.Wait()
		if code := buy("192.0.2.2:1", ok); code != 204 {
			t.Errorf("the next order: %d", code)
		}
	})
}

func TestFrontLeavesThemOut(t *testing.T) {
	l := made(t, layers.Config{Front: true})
	if n, by := passes(l, 1000, func(int) *http.Request { return from("GET", "/api/time", "192.0.2.1:1", "u") }); n != 1000 {
		t.Errorf("%d of 1000 admitted behind a front: %v", n, by)
	}
}

// tight is the default file with other numbers of L4.
func tight(bulkhead string) []byte {
	text := string(layers.Default())
	begin := strings.Index(text, "bulkhead:")
	end := strings.Index(text, "# Failed logins")
	return []byte(text[:begin] + "bulkhead: " + bulkhead + "\n    " + text[end:])
}

func TestACrowdIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := made(t, layers.Config{Policies: tight("{ max: 4, max_waiters: 8, wait: 100ms }")})
		leave := make(chan struct{})
		var under, most, served, refused atomic.Int64
		var done sync.WaitGroup
		for i := range 100 {
			done.Go(func() {
				w := httptest.NewRecorder()
				l.Serve(w, from("GET", "/api/time", fmt.Sprintf("198.51.%d.1:1", i), ""), func(w http.ResponseWriter, r *http.Request) {
					most.Store(max(most.Load(), under.Add(1)))
					<-leave
					under.Add(-1)
					served.Add(1)
				})
				if w.Code != http.StatusTooManyRequests {
					return
				}
				refused.Add(1)
				var p struct {
					Layer, Reason string
					RetryAfter    int64 `json:"retry_after_ms"`
				}
				if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Layer != "L4" || p.Reason != "overloaded" || p.RetryAfter < 1000 || w.Header().Get("Retry-After") != "2" && w.Header().Get("Retry-After") != "1" {
					t.Errorf("refusal: %s %v", w.Body, w.Header())
				}
			})
		}
		synctest.Wait()
		if n := refused.Load(); n != 88 {
			t.Errorf("%d refused at once, want 88: 4 run and 8 wait", n)
		}
		time.Sleep(time.Second) // in the bubble: waiting requests give up
		if n := refused.Load(); n != 96 {
			t.Errorf("%d refused after the wait, want 96", n)
		}
		close(leave)
		done.Wait()
		if most.Load() != 4 || served.Load() != 4 {
			t.Errorf("%d at once and %d served, want 4 and 4", most.Load(), served.Load())
		}
		if n := l.Counts()[sale.L4][sale.Overloaded]; n != 96 {
			t.Errorf("%d counted, want 96", n)
		}
	})
}

// away is a store that does not answer.
type away struct{}

func (away) Do(ctx context.Context, _ weir.Request) (weir.Decision, error) {
	<-ctx.Done()
	return weir.Decision{}, fmt.Errorf("away: %w", weir.ErrUnavailable)
}

func (a away) DoAll(ctx context.Context, rs []weir.Request, _ []weir.Decision) (bool, error) {
	_, err := a.Do(ctx, rs[0])
	return false, err
}

func TestAStoreThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := made(t, layers.Config{Store: away{}, Deadline: 20 * time.Millisecond})
		admitted, by := passes(l, 500, func(int) *http.Request { return from("GET", "/api/time", "192.0.2.1:1", "") })
		// The limit goes on in this process, refilled while the first questions waited.
		if admitted < 40 || admitted > 45 || by["429 L1"] != 500-admitted {
			t.Errorf("%d of 500 admitted without the store: %v, want about 40", admitted, by)
		}
	})
}

func TestClosedIsARefusalOfALayer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := strings.ReplaceAll(string(layers.Default()), "on_store_error: local", "on_store_error: closed")
		l := made(t, layers.Config{Store: away{}, Deadline: 20 * time.Millisecond, Policies: []byte(file)})
		w := httptest.NewRecorder()
		l.Serve(w, from("GET", "/api/time", "192.0.2.1:1", ""), ok)
		if w.Code != 503 || w.Header().Get(layers.LayerHeader) != "L1" || w.Header().Get("Retry-After") == "" {
			t.Errorf("%d %v, want 503 of L1 with Retry-After", w.Code, w.Header())
		}
		if n := l.Counts()[sale.L1][layers.Unavailable]; n != 1 {
			t.Errorf("%d counted as unavailable, want 1: %v", n, l.Counts())
		}
	})
}

// TestTheAccount sends a mixed load and compares what the client saw with what is counted.
func TestTheAccount(t *testing.T) {
	reg := prometheus.NewRegistry()
	l := made(t, layers.Config{Registry: reg, Policies: tight("{ max: 8, max_waiters: 4, wait: 1ms }")})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/early" {
			l.Refuse(w, layers.Refusal{Reason: sale.IsSoldOut})
			return
		}
		r.Header.Set(layers.UserHeader, r.URL.Query().Get("user"))
		l.Serve(w, r, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Query().Get("do") {
			case "queue":
				layers.Refusal{Layer: sale.L3, Reason: sale.QueueFull}.Write(w)
			case "stock":
				layers.Refusal{Layer: sale.LS, Reason: sale.IsAllTaken}.Write(w)
			case "invalid":
				layers.Refusal{Reason: layers.Invalid}.Write(w)
			case "panic":
				panic(http.ErrAbortHandler)
			default:
				_, _ = io.WriteString(w, "{}")
			}
		})
	}))
	defer server.Close()
	const workers, each = 24, 150
	var mu sync.Mutex
	saw, broken := map[string]int64{}, int64(0)
	var done sync.WaitGroup
	for g := range workers {
		done.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			does := []string{"/early", "/api/x?do=queue", "/api/x?do=stock", "/api/x?do=invalid", "/api/x?do=panic", "/api/x"}
			for i := range each {
				url := server.URL + does[i%len(does)]
				if i%7 == 0 {
					url += fmt.Sprintf("&user=u%d", g%3)
				}
				resp, err := client.Get(url)
				mu.Lock()
				if err != nil {
					broken++ // the handler panicked: admitted, and not answered
				} else {
					saw[resp.Header.Get(layers.LayerHeader)]++
				}
				mu.Unlock()
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			}
		})
	}
	done.Wait()
	requests, admitted, refused := l.Totals()
	counted := map[string]int64{}
	for layer, reasons := range l.Counts() {
		for _, n := range reasons {
			counted[string(layer)] += n
		}
	}
	if requests < workers*each || requests-admitted-refused != 0 {
		t.Errorf("%d requests, %d admitted, %d refused: the difference is %d", requests, admitted, refused, requests-admitted-refused)
	}
	for _, layer := range []string{"L0", "L1", "L2", "L3", "L4", "stock"} {
		if counted[layer] != saw[layer] {
			t.Errorf("%s refused %d, the client saw %d", layer, counted[layer], saw[layer])
		}
	}
	if saw["L0"] == 0 || saw["L1"] == 0 || saw["L3"]+saw["stock"] == 0 {
		t.Errorf("the load was not mixed: %v", saw)
	}
	// A client sends a request again on its own if a connection that was in use breaks.
	if got := saw[""] + broken; admitted < got {
		t.Errorf("%d admitted, the client saw %d", admitted, got)
	}
	sum := 0.0
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch f.GetName() {
			case "flashsale_requests_total":
				sum += m.GetCounter().GetValue()
			case "flashsale_refused_total", "flashsale_admitted_total":
				sum -= m.GetCounter().GetValue()
			}
		}
	}
	if sum != 0 {
		t.Errorf("metrics: requests − refused − admitted = %v, want 0", sum)
	}
	t.Logf("%d requests, %d admitted, refused %v, difference 0", requests, admitted, counted)
}
