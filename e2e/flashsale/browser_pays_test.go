package flashsale_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/browsertest"
	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/flashsale/payments"
	"github.com/floodweir/weir/flashsale/payments/httpform"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/signing"
	"github.com/floodweir/weir/internal/porttest"
)

// A faultyNetwork forwards requests between the example shop and the flash sale, and what the
// browser asks the flash sale. It can fail the calls of payments.
type faultyNetwork struct {
	mu     sync.Mutex
	notify func(send func() int) int // handles a notification: calls send any number of times, and returns a status
	refuse string                    // the shop does not answer this call of payments: "query", "close"
	events [][]byte                  // the notifications so far
}

func (n *faultyNetwork) set(notify func(send func() int) int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notify = notify
}

func (n *faultyNetwork) refuses(call string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuse = call
}

func (n *faultyNetwork) last() []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.events) == 0 {
		return nil
	}
	return n.events[len(n.events)-1]
}

// proxy starts a proxy to a server.
func (n *faultyNetwork) proxy(t *testing.T, to string) *httptest.Server {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(u)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.mu.Lock()
		notify, refuse := n.notify, n.refuse
		n.mu.Unlock()
		switch {
		case refuse != "" && r.URL.Path == "/payments/"+refuse:
			w.WriteHeader(http.StatusServiceUnavailable)
		case strings.HasPrefix(r.URL.Path, "/api/payments/notify/"):
			body, _ := io.ReadAll(r.Body)
			n.mu.Lock()
			n.events = append(n.events, body)
			n.mu.Unlock()
			w.WriteHeader(notify(func() int {
				again := r.Clone(context.WithoutCancel(r.Context()))
				again.Body = io.NopCloser(bytes.NewReader(body))
				answer := httptest.NewRecorder()
				forward.ServeHTTP(answer, again)
				return answer.Code
			}))
		default:
			forward.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// exampleShop starts the program of the example shop and returns its URL.
func exampleShop(t *testing.T, key signing.Secret, tokenKey, flashsale string) string {
	t.Helper()
	addr := porttest.Address(t)
	cmd := exec.Command(programtest.Build(t, "./examples/shop"), "-listen", addr, "-flashsale", flashsale, "-token-key", tokenKey)
	cmd.Env = append(os.Environ(), "SHOP_KEY="+key.Text())
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGKILL)
		cmd.Wait()
	})
	redistest.Await(t, "the shop listens", func() error {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		return c.Close()
	})
	return "http://" + addr
}

// TestBrowserPays runs the program of the example shop beside the flash sale, behind a network
// with faults. A buyer signs in at the shop, buys four units and pays at the shop. The
// notifications of the payments are delayed, repeated, lost, and after the deadline; a forged one
// changes nothing. The page shows each outcome without a reload.
func TestBrowserPays(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	k, err := run.OpenPaymentKeyring(t.Context(), run.Config{Data: data})
	if err != nil {
		t.Fatal(err)
	}
	text, err := k.Add(t.Context(), "default", "")
	if err == nil {
		err = k.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	key, err := signing.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	tokenKey := filepath.Join(data, "token-key")
	if err := os.WriteFile(tokenKey, []byte(strings.Repeat("s", 40)), 0o600); err != nil {
		t.Fatal(err)
	}
	network := &faultyNetwork{}
	listen := porttest.Address(t)
	front := network.proxy(t, "http://"+listen)
	shop := exampleShop(t, key, tokenKey, front.URL)
	back := network.proxy(t, shop)
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	system, err := run.Start(t.Context(), run.Config{Data: data, Payments: []string{back.URL + "/payments"}, Shop: listen, Office: "127.0.0.1:0", Clock: now,
		Identity: run.Identity{JWTKey: tokenKey, JWTAlgorithm: "HS256", JWTIssuer: "shop", JWTCookie: "shop_token", SignIn: shop + "/"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := system.Stop(); err != nil {
			t.Error(err)
		}
	})
	start := now().Truncate(time.Millisecond)
	made := expose(t, system.Merchants, "mei", sale.Draft{SKU: "keyboard-walnut", Title: "Walnut keyboard", Price: 19900, Currency: "CNY", Stock: 9, PerUser: 4,
		StartsAt: start.Add(100 * time.Millisecond), EndsAt: start.Add(time.Hour), Queue: sale.Fifo, PayWithin: 15 * time.Minute, MembersOnly: true})

	// The buyer is a guest first, and is asked to sign in.
	p := chromium.use(t).Page(t, "ann", browsertest.Device{Width: 375, Height: 740})
	page := front.URL + "/sales/" + made.ID
	p.Open(page)
	stage(p, "open")
	p.Click("#join")
	p.WaitText("#note", "for members")
	p.Click("#sign-in")
	p.Fill("[name=name]", "Ann")
	p.Click("button")
	p.Click(".sales a")
	stage(p, "open")

	picture := shots(t)
	newest := func(title string) {
		t.Helper()
		p.Await(fmt.Sprintf(`document.querySelector(".receipt h2")?.textContent === %q`, title))
	}
	// buys reserves a unit and opens the page of its payment at the shop.
	buys := func() {
		t.Helper()
		if p.Text("location.href") != page {
			p.Open(page)
		}
		p.Click("#join")
		newest("It is yours if you pay in time")
		p.Fill(`[name="name"]`, "Li")
		p.Fill(`[name="phone"]`, "12345")
		p.Click(`[data-do="pay"]`)
		p.Await(`location.origin === "` + shop + `" && document.querySelector("#pay") !== null`)
	}
	// pays pays at the shop, which sends the buyer back. From then on the page is not reloaded.
	pays := func() {
		t.Helper()
		p.Click("#pay")
		p.Await(`location.pathname === "/orders" && document.querySelector(".receipt") !== null`)
		p.Do("window.same = true")
	}
	outcome := func(title, name string) {
		t.Helper()
		newest(title)
		if p.Text("window.same") != "true" {
			t.Errorf("%s: the page was loaded again", title)
		}
		if p.Text(noScroll) != "true" {
			t.Errorf("%s: scrolls sideways", title)
		}
		p.Screenshot(picture(name))
	}
	totals := func() sale.OrderTotals {
		t.Helper()
		b, err := system.Merchants.Dashboard(t.Context(), "mei", made.ID)
		if err != nil {
			t.Fatal(err)
		}
		return b.Totals
	}
	jump := func(d time.Duration) {
		ahead.Add(int64(d))
		p.Do(`document.dispatchEvent(new Event("visibilitychange"))`)
	}

	// Delayed. A forged notification before it changes nothing. The page reports that the buyer is
	// back, so the flash sale asks the shop, and gets no answer.
	release := make(chan struct{})
	network.refuses("query")
	network.set(func(send func() int) int { <-release; return send() })
	buys()
	pays()
	outcome("Waiting for your payment", "30-waiting-375")
	redistest.Await(t, "the shop notifies", func() error {
		if network.last() == nil {
			return errors.New("no notification")
		}
		return nil
	})
	var paid payments.Event
	if err := json.Unmarshal(network.last(), &paid); err != nil || paid.Kind != payments.Paid {
		t.Fatalf("the notification is %s, %v", network.last(), err)
	}
	if err := httpform.Report(t.Context(), http.DefaultClient, system.ShopURL+"/api/payments/notify/default", paid, signing.New()); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("a forged notification: %v, want 403", err)
	}
	if state := p.Text(`fetch("/api/orders").then((r) => r.json()).then((b) => b.orders[0].state)`); state != "pending_pay" {
		t.Errorf("after a forged notification the order is %s, want pending_pay", state)
	}
	newest("Waiting for your payment")
	close(release)
	outcome("Paid. It is yours", "31-paid-375")
	network.refuses("")

	// Repeated.
	var answers []int
	network.set(func(send func() int) int {
		one, two := send(), send()
		network.mu.Lock()
		answers = append(answers, one, two)
		network.mu.Unlock()
		return send()
	})
	buys()
	pays()
	outcome("Paid. It is yours", "32-repeated-375")
	redistest.Await(t, "the repeated notifications are accepted", func() error {
		network.mu.Lock()
		defer network.mu.Unlock()
		if !slices.Equal(answers, []int{200, 200}) {
			return fmt.Errorf("got %v", answers)
		}
		return nil
	})

	// Lost: the page reports repeatedly that the buyer is back, so the flash sale asks the shop.
	network.set(func(func() int) int { return http.StatusOK })
	network.refuses("query")
	buys()
	pays()
	p.Open(page) // which shows it too
	p.Do("window.same = true")
	outcome("Waiting for your payment", "33-lost-375")
	network.refuses("")
	outcome("Paid. It is yours", "34-found-375")
	if n := totals(); n.Paid != 3 || n.RefundDue+n.Refunded != 0 {
		t.Errorf("%+v, want three orders, all paid once", n)
	}

	// Late: the shop does not answer when the payment is closed, so the buyer can still pay.
	network.set(func(send func() int) int { return send() })
	network.refuses("close")
	buys()
	jump(15*time.Minute + 20*time.Second)
	redistest.Await(t, "the order expires", func() error {
		if n := totals(); n.Expired != 1 {
			return fmt.Errorf("%+v", n)
		}
		return nil
	})
	pays()
	outcome("Not paid in time", "35-late-375")
	p.WaitText("[data-refund]", "Refunded")
	outcome("Not paid in time", "36-refunded-375")
	network.refuses("")
	if n := totals(); n.Paid != 3 || n.Expired != 1 || n.Refunded != 1 || n.RefundDue != 0 {
		t.Errorf("%+v, want three paid orders, and one expired and refunded", n)
	}
	wantNoErrors(t, p)
}
