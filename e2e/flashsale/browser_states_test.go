package flashsale_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
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

// axe is axe-core, which checks a page for accessibility.
var axe = sync.OnceValues(func() (string, error) {
	f, err := os.Open("../consoletest/testdata/axe-core-4.14.1.min.js.gz")
	if err != nil {
		return "", err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(z)
	return string(text), err
})

// wantAccessible checks that axe-core has no serious or critical finding.
func wantAccessible(t *testing.T, p *browsertest.Page, what string) {
	t.Helper()
	script, err := axe()
	if err != nil {
		t.Fatal(err)
	}
	p.Do(script)
	if found := p.Text(`axe.run(document, { resultTypes: ["violations"] }).then((r) => r.violations
		.filter((v) => ["serious", "critical"].includes(v.impact)).map((v) => v.id + " " + v.nodes.map((n) => n.html).join(" ")).join("\n"))`); found != "" {
		t.Errorf("%s: axe: %s", what, found)
	}
}

// TestBrowserAlerts checks that a hidden page shows a notification when a unit is reserved, if the
// buyer wants one. A buyer can leave the line and join it again.
func TestBrowserAlerts(t *testing.T) {
	t.Parallel()
	p := chromium.use(t).Page(t, "alerts", browsertest.Device{Width: 375, Height: 740})
	s := newScriptedShop(t)
	p.Open(s.URL + "/sales/one")
	stage(p, "open")
	p.Do(`window.Notification = class { static permission = "granted"; constructor(title, { body }) { window.shown = title + "|" + body; } close() {} }`)
	p.Click("#join")
	stage(p, "line")
	p.Click("#leave")
	p.Click("#sure-yes")
	s.set(func(s *scriptedShop) { s.status["state"] = "none" })
	stage(p, "open")
	before := len(s.polls())
	p.Await(`performance.getEntriesByType("resource").filter((e) => e.name.endsWith("/api/sales/one")).length >= 3`)
	if after := len(s.polls()); after != before {
		t.Errorf("%d polls after the buyer left the line", after-before)
	}
	p.Click("#join")
	stage(p, "line")
	p.Click("#notify")
	p.WaitText("#notify", "Sound and notification on")
	p.Do(`Object.defineProperty(document, "hidden", { get: () => true })`)
	s.set(func(s *scriptedShop) { s.order("r1", "pending_pay", time.Minute) })
	p.Await(`window.shown?.startsWith("It is yours if you pay in time|Mug") && document.title.startsWith("● ")`)
	calendar := p.Text(`import(document.querySelector("script[type=module]").src.replace("sale.js", "alert.js")).then(({ calendar }) =>
		calendar({ id: "one", starts_at: "2030-01-02T03:04:05.000Z", ends_at: "2030-01-02T04:04:05.000Z" }, "键盘, ".repeat(12), "https://shop.example/sales/one"))`)
	for _, line := range strings.Split(calendar, "\r\n") {
		if len(line) > 75 {
			t.Errorf("a line of the calendar has %d bytes: %s", len(line), line)
		}
	}
	for _, want := range []string{"DTSTART:20300102T030405Z\r\n", "SUMMARY:键盘\\, ", "TRIGGER:-PT5M\r\n", "UID:one@shop.example\r\n"} {
		if !strings.Contains(calendar, want) {
			t.Errorf("the calendar is %q, want %q in it", calendar, want)
		}
	}
	wantNoErrors(t, p)
}

// polls returns the polls for a turn.
func (s *scriptedShop) polls() (calls []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, call := range s.asked {
		if strings.HasSuffix(call, "/ticket") {
			calls = append(calls, call)
		}
	}
	return calls
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
			s := newScriptedShop(t)
			for _, state := range states {
				s.set(func(s *scriptedShop) { s.reset(); state.change(s) })
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
				if slices.Contains([]string{"upcoming", "line", "pay", "sold-out"}, state.name) {
					wantAccessible(t, p, fmt.Sprintf("%s at %d px", state.name, look.Width))
				}
				if file, err := os.Stat(picture); err != nil || file.Size() < 5_000 {
					t.Errorf("%s: picture: %v %v", state.name, file, err)
				}
				// The next state has the same address, so that Chromium compiles the scripts once.
				p.Do("Storage.prototype.setItem = () => {}; localStorage.clear(); sessionStorage.clear()")
			}
			wantNoErrors(t, p)
		})
	}
}
