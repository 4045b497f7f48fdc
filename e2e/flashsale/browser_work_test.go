package flashsale_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/browsertest"
	"github.com/floodweir/weir/flashsale/sale"
)

// costly is a sale whose tickets cost so many bits of work, and where its page is.
func (s *story) costly(bits int, starts time.Time) (url string) {
	s.t.Helper()
	made, err := s.system.Merchants.Create(s.t.Context(), "mei", sale.Draft{
		SKU: "CUP-1", Title: "Cup", Price: 1900, Currency: "CNY", Stock: 3, PerUser: 1, StartsAt: starts, EndsAt: starts.Add(time.Hour),
		Headroom: 3, Queue: sale.Fifo, PayWithin: 15 * time.Minute, TokenFor: 10 * time.Minute, Work: bits,
	})
	if err == nil {
		_, err = s.system.Merchants.Expose(s.t.Context(), "mei", made.ID)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return s.system.ShopURL + "/sales/" + made.ID
}

// asks counts how often a page has asked for a ticket, and what it was answered.
const asks = `performance.getEntriesByType("resource").filter((e) => e.name.endsWith("/ticket") && e.responseStatus === %d).length`

// TestBrowserWorks: the work that a ticket costs is done while the buyer waits for the start,
// and is done once.
func TestBrowserProofOfWork(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	starts := s.now().Add(time.Hour).Truncate(time.Second)
	url := s.costly(12, starts)
	p := s.b.Page(t, "work", browsertest.Device{Width: 375, Height: 740, Lang: "zh-CN"})
	p.Open(url)
	stage(p, "upcoming")
	p.WaitText("#work", "浏览器已完成所需的计算")
	if p.Text(`document.querySelector(".work progress").hidden`) != "true" || p.Text(noScroll) != "true" {
		t.Error("work that is done shows how far it is, or the page scrolls sideways")
	}
	nonce := p.Text(`JSON.parse(Object.entries(localStorage).find(([k]) => k.startsWith("fs.work."))[1]).nonce`)
	p.Reload()
	p.WaitText("#work", "浏览器已完成所需的计算")
	if again := p.Text(`JSON.parse(Object.entries(localStorage).find(([k]) => k.startsWith("fs.work."))[1]).nonce`); again != nonce {
		t.Errorf("the work was done again after a reload: %s, want %s", again, nonce)
	}
	s.jump(starts.Add(-time.Second), p)
	p.Await(`!document.querySelector("#join").disabled`)
	p.Click("#join")
	stage(p, "turn")
	if n := p.Number(fmt.Sprintf(asks, 403)); n != 0 {
		t.Errorf("a ticket was refused %g times before", n)
	}
	p.Click("#buy")
	p.WaitText(".receipt h2", "请在时限内付款")
	wantNoErrors(t, p)
}

// TestBrowserWorksStill: while much work is under way the page says so and can be used; a
// ticket that is asked for without the work is refused with what is missing.
func TestBrowserDuringProofOfWork(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	url := s.costly(sale.MaxWork, s.now().Add(100*time.Millisecond).Truncate(time.Millisecond))
	p := s.b.Page(t, "still", browsertest.Device{Width: 375, Height: 740})
	p.Open(url)
	stage(p, "open")
	p.WaitText("#work", "Your browser is working for your ticket")
	p.Await(`document.querySelector(".work progress").value > 0`)
	p.Click("#join")
	p.Await(`document.querySelector("#join").getAttribute("aria-disabled") === "true"`)
	if p.Text(`document.querySelector("#work").getAttribute("aria-live")`) != "polite" || p.Text(noScroll) != "true" {
		t.Error("the work is not said politely, or the page scrolls sideways")
	}
	s.picture(p, "26-work-375")
	said := p.Text(`fetch("/api" + location.pathname + "/ticket", { method: "POST", headers: { "Flashsale-Request": "1", "Content-Type": "application/json" }, body: "{}" }).then(async (r) => r.status + " " + await r.text())`)
	for _, want := range []string{"403 ", `"layer":"L3"`, `"reason":"work_due"`, `"field":"work"`, `"challenge":"`, `"bits":24`, "work: got none, want a nonce"} {
		if !strings.Contains(said, want) {
			t.Errorf("without work the answer is %s, want %s in it", said, want)
		}
	}
	wantNoErrors(t, p)
}

// TestBrowserCannotWork: a buyer whose browser gets nowhere is told why there is no ticket.
func TestBrowserWithoutProofOfWork(t *testing.T) {
	t.Parallel()
	b := chromium.use(t)
	p := b.Page(t, "cannot", browsertest.Device{Width: 375, Height: 740})
	s := newScriptedShop(t)
	s.set(func(s *scriptedShop) {
		s.view["work"] = 12
		s.refuse["POST /api/sales/one/ticket"] = []refusal{{403, "work_due", 0}}
	})
	p.Open(s.URL + "/sales/one") // it has no challenge to give
	stage(p, "open")
	p.Click("#join")
	p.WaitText("#note", "has not done the work")
	p.Click("#join")
	stage(p, "line")
}
