package flashsale_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/browsertest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/flashsale/sale"
)

// TestBrowserRetries loses the responses of a purchase: the page repeats it under the same key,
// also after a reload, and clicks in between make no other purchase.
func TestBrowserRetries(t *testing.T) {
	t.Parallel()
	b := chromium.use(t)
	p := b.Page(t, "again", browsertest.Device{Width: 375, Height: 740})
	s := newScriptedShop(t)
	s.set(func(s *scriptedShop) {
		s.admit("token-1", 10*time.Minute)
		s.refuse["POST /api/sales/one/orders"] = []refusal{{502, "", 0}, {503, "unavailable", time.Second}, {429, "too_many", time.Second}}
	})
	p.Open(s.URL + "/sales/one")
	stage(p, "turn")
	p.Do(`for (let i = 0; i < 3; i++) document.querySelector("#buy").click()`)
	p.Await(`document.querySelector("#buy").getAttribute("aria-disabled") === "true"`)
	p.WaitText(".receipt h2", "Reserved for you")
	s.mu.Lock()
	keys, orders := slices.Clone(s.keys), len(s.orders)
	s.mu.Unlock()
	if len(keys) != 4 || orders != 1 || slices.ContainsFunc(keys, func(k string) bool { return k != keys[0] }) {
		t.Errorf("%d orders by the keys %q, want one order by one key in 4 calls", orders, keys)
	}

	// Reloaded without a response, it continues with the same key.
	s = newScriptedShop(t)
	s.set(func(s *scriptedShop) {
		s.admit("token-2", 10*time.Minute)
		s.refuse["POST /api/sales/one/orders"] = []refusal{{503, "unavailable", time.Minute}}
	})
	p.Open(s.URL + "/sales/one")
	stage(p, "turn")
	p.Click("#buy")
	p.Await(`document.querySelector("#note").textContent !== ""`)
	p.Reload()
	stage(p, "turn")
	p.Click("#buy")
	p.WaitText(".receipt h2", "Reserved for you")
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.keys) != 2 || s.keys[0] != s.keys[1] || len(s.orders) != 1 {
		t.Errorf("after a reload: %d orders by the keys %q, want one by one key", len(s.orders), s.keys)
	}
}

// TestBrowserWithDefaultLimits runs three browsers of one address with the default limits. They
// wait, buy with double clicks and a second tab, and pay, and no limit refuses them.
func TestBrowserWithDefaultLimits(t *testing.T) {
	t.Parallel()
	system, err := run.Start(t.Context(), run.Config{Data: t.TempDir(), Mock: true, Shop: "127.0.0.1:0", Office: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := system.Stop(); err != nil {
			t.Error(err)
		}
	})
	now := time.Now().Truncate(time.Millisecond)
	made := expose(t, system.Merchants, "mei", sale.Draft{
		SKU: "CUP-1", Title: "Cup", Price: 1900, Currency: "CNY", Stock: 3, PerUser: 1, StartsAt: now.Add(100 * time.Millisecond), EndsAt: now.Add(time.Hour),
		Headroom: 3, Queue: sale.Fifo, PayWithin: 15 * time.Minute, TokenFor: 10 * time.Minute,
	})
	b := chromium.use(t)
	pages := make([]*browsertest.Page, 3)
	for i := range pages {
		pages[i] = b.Page(t, fmt.Sprint("buyer ", i), browsertest.Device{Width: 375, Height: 740})
	}
	var all sync.WaitGroup
	for _, p := range pages {
		all.Go(func() { p.Open(system.ShopURL + "/sales/" + made.ID) })
	}
	all.Wait()
	for i, p := range pages {
		stage(p, "open")
		p.Do(`document.querySelector("#join").click(); document.querySelector("#join").click()`)
		if i == 0 { // a second tab of the same buyer clicks too, with its own key
			p.Do(fmt.Sprintf(`fetch("/api/sales/%s/ticket", { method: "POST", body: JSON.stringify({ buy: true }),
				headers: { "Content-Type": "application/json", "Flashsale-Request": "1", "Idempotency-Key": "tab-2" } })
				.then((r) => { window.tab = r.status; })`, made.ID))
		}
		p.WaitText(".receipt h2", "It is yours if you pay in time")
		if n := p.Number(`document.querySelectorAll(".receipt").length`); n != 1 {
			t.Errorf("buyer %d has %v orders", i, n)
		}
		p.Fill(`[name="name"]`, "Li")
		p.Fill(`[name="phone"]`, "12345")
		p.Click(`[data-do="pay"]`)
		p.WaitText(".receipt h2", "Paid. It is yours")
	}
	// The stored contact is for the next order of the same browser.
	if got := pages[0].Text(`localStorage.getItem("fs.contact")`); got != `{"name":"Li","phone":"12345"}` {
		t.Errorf("the browser stored %s", got)
	}
	for _, p := range pages {
		stage(p, "sold_out")
	}
	if tab := pages[0].Number(`window.tab ?? 0`); tab != http.StatusCreated && tab != http.StatusConflict && tab != http.StatusTooManyRequests { // one unit per user
		t.Errorf("the second tab received %v", tab)
	}
	board, err := system.Merchants.Dashboard(t.Context(), "mei", made.ID)
	if err != nil || board.Totals.Paid != 3 || board.Totals.Pending+board.Totals.Cancelled+board.Totals.Expired != 0 {
		t.Errorf("%+v, %v, want 3 orders, all paid", board.Totals, err)
	}
	if n := board.Layers[sale.L1]; len(n) != 0 {
		t.Errorf("L1 refused %v", n)
	}
	n := int64(0)
	for _, each := range board.Layers[sale.L2] {
		n += each
	}
	if n > 6 { // two for each buyer, and the page retries; no user clicks as fast as a test
		t.Errorf("L2 refused %v", board.Layers[sale.L2])
	}
}

// TestBrowserZoomed checks at 200 %, which halves the width of a page, that no page of the
// office or the shop scrolls sideways.
func TestBrowserZoomed(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	check := func(p *browsertest.Page, what string) {
		t.Helper()
		if p.Text(noScroll) != "true" {
			t.Errorf("%s scrolls sideways: %s px", what, p.Text(`document.documentElement.scrollWidth`))
		}
	}
	s.login(browsertest.Device{Width: 320, Height: 450})
	check(s.office, "the list of sales")
	starts := s.now().Add(time.Hour).Truncate(time.Second)
	id := s.create(starts)
	check(s.office, "a sale in the office")
	s.office.Click("#orders summary")
	s.office.WaitText("#orders", "Reservation")
	check(s.office, "the orders in the office")
	s.office.Open(s.system.OfficeURL + "/sales/new")
	s.office.WaitText("h1", "")
	check(s.office, "a new sale")
	p := s.b.Page(t, "zoomed", browsertest.Device{Width: 320, Height: 450, Lang: "zh-CN"})
	s.jump(starts.Add(time.Second))
	p.Open(s.system.ShopURL + "/sales/" + id)
	p.Click("#join")
	p.Await(`document.querySelector('[name="phone"]')`)
	check(p, "an order to be paid")
	p.Open(s.system.ShopURL + "/orders")
	p.Await(`document.querySelector('[name="phone"]')`)
	check(p, "the orders")
	wantNoErrors(t, s.office, p)
}

// awaitPolls waits for further calls of a page for its ticket: with POST it buys, too.
func (s *scriptedShop) awaitPolls(t *testing.T, method string, further int) {
	t.Helper()
	count := func() (n int) {
		for _, call := range s.polls() {
			if strings.HasPrefix(call, method+" ") {
				n++
			}
		}
		return n
	}
	before := count()
	redistest.Await(t, "the page polls with "+method, func() error {
		if n := count() - before; n < further {
			return fmt.Errorf("%d calls", n)
		}
		return nil
	})
}

// TestBrowserOldAnswers checks that a page keeps the newest state of an order when an older
// response arrives, or a queue status that lacks the order or the ticket.
func TestBrowserOldAnswers(t *testing.T) {
	t.Parallel()
	p := chromium.use(t).Page(t, "old", browsertest.Device{Width: 375, Height: 740})
	s := newScriptedShop(t)
	s.set(func(s *scriptedShop) {
		s.order("r1", "pending_pay", 15*time.Minute)
		s.status["state"], s.behind = "spent", true
	})
	p.Open(s.URL + "/sales/one")
	p.WaitText(".receipt h2", "It is yours if you pay in time")
	p.Do(`window.went = false; new MutationObserver(() => { window.went ||= document.querySelector('.receipt[data-state="reserved"]') !== null; })
		.observe(document.body, { attributes: true, childList: true, subtree: true })`)
	s.awaitPolls(t, "GET", 3)
	if p.Text("window.went") != "false" {
		t.Error("a pending order went back to reserved")
	}

	// A click takes longer than polls, which have no ticket yet. The page still wants the unit.
	s = newScriptedShop(t)
	s.set(func(s *scriptedShop) {
		s.refuse["POST /api/sales/one/ticket"] = slices.Repeat([]refusal{{429, "too_many", time.Second}}, 100)
	})
	p.Open(s.URL + "/sales/one")
	p.Click("#join")
	s.awaitPolls(t, "GET", 3) // before the click is accepted
	s.set(func(s *scriptedShop) { s.refuse = nil })
	stage(p, "line")
	s.awaitPolls(t, "POST", 3)
	chooseQuantity(t, p)
}

// chooseQuantity checks that a buyer chooses how many units a click reserves, and reads in the
// language of the page why a quantity is refused.
func chooseQuantity(t *testing.T, p *browsertest.Page) {
	s := newScriptedShop(t)
	s.set(func(s *scriptedShop) {
		s.view["per_user"], s.view["max_quantity"] = 5, 3
		s.refuse["POST /api/sales/one/ticket"] = []refusal{badQuantity}
	})
	p.Open(s.URL + "/sales/one?lang=zh")
	p.WaitText("#total", "¥99.00")
	p.Click("#quantity")
	p.Key("3")
	p.Key("Enter")
	p.WaitText("#total", "¥297.00")
	if options := p.Text(`document.querySelector("#quantity").length`); options != "3" {
		t.Errorf("%s quantities to choose from, want those up to 3", options)
	}
	p.Click("#join")
	p.WaitText("#note", "数量：应在 1 到 2 之间。")
	p.Reload()
	p.WaitText("#total", "¥297.00") // the choice is kept
	p.Click("#join")
	stage(p, "line")
	s.set(func(s *scriptedShop) {
		if len(s.wanted) < 2 || s.wanted[0] != 3 || s.wanted[1] != 3 {
			t.Errorf("the clicks wanted %v units, want 3 each", s.wanted)
		}
	})
}
