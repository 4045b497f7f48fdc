package flashsale_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/browsertest"
	"github.com/floodweir/weir/flashsale/sale"
)

// costly creates a sale whose tickets cost bits of proof of work, and returns the URL of its
// page.
func (s *story) costly(bits int, starts time.Time) (url string) {
	s.t.Helper()
	made, err := s.system.Merchants.Create(s.t.Context(), "mei", "", sale.Draft{
		SKU: "CUP-1", Title: "Cup", Price: 1900, Currency: "CNY", Stock: 9, PerUser: 1, StartsAt: starts, EndsAt: starts.Add(time.Hour),
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

// asks counts the requests of a page for a ticket, and the responses.
const asks = `performance.getEntriesByType("resource").filter((e) => e.name.endsWith("/ticket") && e.responseStatus === %d).length`

// TestBrowserProofOfWork checks that a page solves the proof of work once, while the buyer waits
// for the start.
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
		t.Error("finished work still shows progress, or the page scrolls sideways")
	}
	nonce := p.Text(`JSON.parse(Object.entries(localStorage).find(([k]) => k.startsWith("fs.work."))[1]).nonce`)
	p.Reload()
	p.WaitText("#work", "浏览器已完成所需的计算")
	if again := p.Text(`JSON.parse(Object.entries(localStorage).find(([k]) => k.startsWith("fs.work."))[1]).nonce`); again != nonce {
		t.Errorf("the work was solved again after a reload: %s, want %s", again, nonce)
	}
	s.jump(starts.Add(-time.Second), p)
	p.Await(`!document.querySelector("#join").disabled`)
	p.Click("#join")
	p.WaitText(".receipt h2", "请在时限内付款")
	if n := p.Number(fmt.Sprintf(asks, 403)); n != 0 {
		t.Errorf("a ticket was refused %g times", n)
	}
	p.WaitText(".receipt h2", "请在时限内付款")
	wantNoErrors(t, p)
}

// TestBrowserDuringProofOfWork checks that a page shows the progress and stays usable. A request
// without the solution is refused with the challenge.
func TestBrowserDuringProofOfWork(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	url := s.costly(sale.MaxWork, s.now().Add(100*time.Millisecond).Truncate(time.Millisecond))
	p := s.b.Page(t, "still", browsertest.Device{Width: 375, Height: 740})
	p.Open(url)
	stage(p, "open")
	p.WaitText("#work", "Your browser is doing a computation for your ticket")
	p.Await(`document.querySelector(".work progress").value > 0`)
	p.Click("#join")
	p.Await(`document.querySelector("#join").getAttribute("aria-disabled") === "true"`)
	if p.Text(`document.querySelector("#work").getAttribute("aria-live")`) != "polite" || p.Text(noScroll) != "true" {
		t.Error("the progress is not a polite live region, or the page scrolls sideways")
	}
	s.picture(p, "26-work-375")
	said := p.Text(`fetch("/api" + location.pathname + "/ticket", { method: "POST", headers: { "Flashsale-Request": "1", "Content-Type": "application/json" }, body: "{}" }).then(async (r) => r.status + " " + await r.text())`)
	for _, want := range []string{"403 ", `"layer":"L3"`, `"reason":"work_due"`, `"field":"work"`, `"challenge":"`, `"bits":24`, "work: got none, want a nonce"} {
		if !strings.Contains(said, want) {
			t.Errorf("without work the response is %s, want %s in it", said, want)
		}
	}
	wantNoErrors(t, p)
}

// TestBrowserWithoutProofOfWork checks that a page explains why there is no ticket if it cannot
// solve the proof of work.
func TestBrowserWithoutProofOfWork(t *testing.T) {
	t.Parallel()
	b := chromium.use(t)
	p := b.Page(t, "cannot", browsertest.Device{Width: 375, Height: 740})
	s := newScriptedShop(t)
	s.set(func(s *scriptedShop) {
		s.view["work"] = 12
		s.refuse["POST /api/sales/one/ticket"] = []refusal{{403, "work_due", 0}}
	})
	p.Open(s.URL + "/sales/one") // it has no challenge
	stage(p, "open")
	p.Click("#join")
	p.WaitText("#note", "has not finished the computation")
	p.Click("#join")
	stage(p, "line")
}
