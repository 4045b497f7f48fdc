package flashsale_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/browsertest"
)

const (
	noScroll = `document.documentElement.scrollWidth <= innerWidth`
	stageIs  = `document.querySelector("#action")?.dataset.stage === "%s"`
)

// wantNoErrors checks that a page has logged no error.
func wantNoErrors(t *testing.T, pages ...*browsertest.Page) {
	t.Helper()
	for _, p := range pages {
		if e := p.Errors(); len(e) > 0 {
			t.Errorf("errors of a page: %s", strings.Join(e, "\n"))
		}
	}
}

// TestBrowserStates shows every state of a buyer at both widths, in both languages and color
// schemes, and wants the same after a reload.
func TestBrowserStates(t *testing.T) {
	t.Parallel()
	b := chromium.use(t)
	shot := shots(t)
	states := []struct {
		name, stage string
		change      func(s *scriptedShop)
	}{
		{"upcoming", "upcoming", func(s *scriptedShop) {
			s.view["phase"], s.view["starts_at"] = "upcoming", at(s.now().Add(26*time.Hour))
			s.view["ends_at"] = at(s.now().Add(30 * time.Hour))
		}},
		{"lobby", "lobby", func(s *scriptedShop) {
			s.view["phase"], s.view["queue"], s.view["lobby_ms"], s.view["starts_at"] = "lobby", "shuffled", 600_000, at(s.now().Add(time.Minute))
		}},
		{"drawn", "drawn", func(s *scriptedShop) {
			s.view["phase"], s.view["queue"], s.view["lobby_ms"], s.view["starts_at"] = "lobby", "shuffled", 600_000, at(s.now().Add(time.Minute))
			s.wait(0, 0)
		}},
		{"open", "open", func(s *scriptedShop) {}},
		{"line", "line", func(s *scriptedShop) { s.wait(1234, 95*time.Second) }},
		{"line-taken", "line", func(s *scriptedShop) { s.view["phase"], s.view["free"] = "all_taken", 0; s.wait(3, 0) }},
		{"paused", "paused", func(s *scriptedShop) { s.view["phase"] = "paused" }},
		{"line-paused", "line", func(s *scriptedShop) { s.view["phase"] = "paused"; s.wait(7, 0) }},
		{"turn", "turn", func(s *scriptedShop) { s.admit("token-1", time.Minute) }},
		{"passed", "open", func(s *scriptedShop) { s.status["state"] = "passed" }},
		{"reserved", "enough", func(s *scriptedShop) { s.order("r1", "reserved", time.Minute); s.status["state"] = "spent" }},
		{"pay", "enough", func(s *scriptedShop) { s.order("r1", "pending_pay", 15*time.Minute); s.status["state"] = "spent" }},
		{"paid", "enough", func(s *scriptedShop) { s.order("r1", "paid", 15*time.Minute); s.status["state"] = "spent" }},
		{"expired", "open", func(s *scriptedShop) { s.order("r1", "expired", 0); s.status["state"] = "spent" }},
		{"refund", "open", func(s *scriptedShop) { s.order("r1", "expired", 0)["refunds"] = 1; s.status["state"] = "spent" }},
		{"cancelled", "open", func(s *scriptedShop) { s.order("r1", "cancelled", 0) }},
		{"rejected", "open", func(s *scriptedShop) { s.order("r1", "rejected", 0) }},
		{"lost", "open", func(s *scriptedShop) { s.order("r1", "lost", 0) }},
		{"all-taken", "all_taken", func(s *scriptedShop) { s.view["phase"], s.view["free"] = "all_taken", 0 }},
		{"sold-out", "sold_out", func(s *scriptedShop) { s.view["phase"], s.view["free"] = "sold_out", 0 }},
		{"ended", "ended", func(s *scriptedShop) { s.view["phase"] = "ended" }},
		{"ended-pay", "ended", func(s *scriptedShop) { s.view["phase"] = "ended"; s.order("r1", "pending_pay", time.Minute) }},
		{"two", "open", func(s *scriptedShop) { s.view["per_user"] = 2; s.order("r1", "paid", time.Minute) }},
	}
	looks := []browsertest.Device{
		{Width: 375, Height: 740, Lang: "zh-CN", Zone: "Asia/Shanghai"},
		{Width: 1280, Lang: "en", Dark: true, ReducedMotion: true, Zone: "Europe/Berlin", Clock: -time.Hour},
	}
	for i, look := range looks {
		t.Run(fmt.Sprintf("%s at %d", look.Lang, look.Width), func(t *testing.T) {
			t.Parallel()
			p := b.Page(t, t.Name(), look)
			for _, state := range states {
				s := newScriptedShop(t)
				s.set(state.change)
				p.Open(s.URL + "/sales/one")
				p.Await(fmt.Sprintf(stageIs, state.stage))
				p.Await(`document.querySelector("#title").textContent === 'Mug <b>"one"</b> & more'`)
				before := p.Text(`document.querySelector("main").innerText.replaceAll(/[\d:]+/g, "")`)
				if p.Text(noScroll) != "true" {
					t.Errorf("%s: scrolls sideways at %d px", state.name, look.Width)
				}
				picture := shot(fmt.Sprintf("state-%s-%d", state.name, look.Width))
				p.Screenshot(picture)
				if i == 0 {
					p.Reload()
					p.Await(fmt.Sprintf(stageIs, state.stage))
					p.Await(fmt.Sprintf(`document.querySelector("main").innerText.replaceAll(/[\d:]+/g, "") === %q`, before))
				}
				if file, err := os.Stat(picture); err != nil || file.Size() < 5_000 {
					t.Errorf("%s: picture: %v %v", state.name, file, err)
				}
			}
			wantNoErrors(t, p)
		})
	}
}
