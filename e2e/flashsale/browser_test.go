package flashsale_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/browsertest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/flashsale/sale"
)

// A story is a flash sale with its merchant's page.
type story struct {
	t      *testing.T
	system *run.System
	b      *browsertest.Browser
	shot   func(name string) string
	office *browsertest.Page
	taken  []string
	ahead  *atomic.Int64 // how far the shop's clock is ahead of the machine's
	stands *atomic.Int64 // the time of the shop's clock in ns while it stands; else 0
}

func (s *story) now() time.Time {
	if at := s.stands.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Now().Add(time.Duration(s.ahead.Load()))
}

// stop sets the shop's clock as jump does, and stops it until the next jump: the steps before that
// may take any time.
func (s *story) stop(at time.Time, pages ...*browsertest.Page) {
	s.stands.Store(at.UnixNano())
	for _, p := range pages {
		p.Do(notice)
	}
}

// notice makes a page look at the time, as it does when a user returns to the tab.
const notice = `document.dispatchEvent(new Event("visibilitychange"))`

// jump sets the shop's clock forward instead of waiting, and lets pages notice it.
func (s *story) jump(to time.Time, pages ...*browsertest.Page) {
	s.ahead.Store(int64(time.Until(to)))
	s.stands.Store(0)
	for _, p := range pages {
		p.Do(notice)
	}
}

// newStory starts a flash sale with the merchant mei. The functions change its configuration.
func newStory(t *testing.T, change ...func(*run.Config)) *story {
	t.Helper()
	s := &story{t: t, shot: shots(t), ahead: new(atomic.Int64), stands: new(atomic.Int64)}
	c := run.Config{Data: t.TempDir(), Mock: true, Shop: "127.0.0.1:0", Office: "127.0.0.1:0", Layers: oneAddress(t), Clock: s.now}
	for _, f := range change {
		f(&c)
	}
	system, err := run.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := system.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := system.AddMerchant(t.Context(), "mei", "a long password"); err != nil {
		t.Fatal(err)
	}
	s.system, s.b = system, chromium.use(t)
	return s
}

// oneAddress returns the default limits with more for an address: all browsers of a test have
// one address, and each loads the pages again.
func oneAddress(t *testing.T) string {
	text, err := os.ReadFile("../../flashsale/layers/layers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const usual = "limits: 20/s burst 40"
	if strings.Count(string(text), usual) != 1 {
		t.Fatalf("the default limits lack %q", usual)
	}
	file := t.TempDir() + "/layers.yaml"
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), usual, "limits: 500/s burst 1000", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (s *story) picture(p *browsertest.Page, name string) {
	s.t.Helper()
	p.Screenshot(s.shot(name))
	s.taken = append(s.taken, name)
}

// wantSame reloads a page, leaves it and returns, and wants the same text each time.
func (s *story) wantSame(p *browsertest.Page, selector, text string) {
	s.t.Helper()
	p.WaitText(selector, text)
	p.Reload()
	p.WaitText(selector, text)
	here := p.Text("location.href")
	p.Open(s.system.ShopURL + "/orders")
	p.WaitText("h1", "")
	p.Back()
	if now := p.Text("location.href"); now != here {
		s.t.Errorf("back led to %s, want %s", now, here)
	}
	p.WaitText(selector, text)
}

func stage(p *browsertest.Page, name string) { p.Await(fmt.Sprintf(stageIs, name)) }

// press clicks an action of the merchant, and confirms it if asked.
func (s *story) press(name string, asked bool) {
	s.t.Helper()
	s.office.Click("#do-" + name)
	if asked {
		s.office.Click("#sure-yes")
	}
}

// login logs the merchant in on a device with the keyboard only, after a wrong password.
func (s *story) login(d browsertest.Device) {
	d.Zone = "UTC"
	s.office = s.b.Page(s.t, "mei", d)
	p := s.office
	p.Open(s.system.OfficeURL + "/")
	p.Await(`document.activeElement?.id === "f-name"`)
	p.Type("mei")
	p.Key("Tab")
	p.Type("a wrong password")
	p.Key("Enter")
	p.WaitText(".note", "Name or password is wrong.")
	p.Fill("#f-password", "a long password")
	p.Key("Enter")
	p.WaitText("main", "You have no sales yet.")
	s.picture(p, "01-office-empty")
}

// create fills the form of a sale with a mistake, corrects it, and exposes the sale.
func (s *story) create(starts time.Time) (id string) {
	p := s.office
	p.Click("#new")
	for name, value := range map[string]string{
		"title": "Walnut keyboard 胡桃木键盘", "sku": "KEYS 1", "price": "299.00", "stock": "2", "campaign": "autumn-keys", "pay_within_ms": "15", "token_for_ms": "600",
		"starts_at": starts.UTC().Format("2006-01-02T15:04:05"), "ends_at": starts.Add(time.Hour).UTC().Format("2006-01-02T15:04:05"),
	} {
		p.Fill("#f-"+name, value)
	}
	p.Do(`document.querySelector("#f-address").value = "optional"`)
	p.Click("#save")
	p.Await(`document.activeElement?.id === "f-sku" && document.querySelector("#f-sku-fault").textContent !== ""`)
	s.picture(p, "02-office-field-fault")
	p.Fill("#f-sku", "KEYS-1")
	p.Click("#save")
	p.WaitText("#state", "Draft")
	p.Fill("#f-price", "199.00")
	p.Click("#save")
	p.WaitText("#note", "Saved.")
	p.Reload()
	p.Await(`document.querySelector("#f-price")?.value === "199.00"`)
	p.Choose("#f-file", "../../flashsale/cli/keyboard.jpg", "image/jpeg")
	p.WaitText("#product .hint", "keyboard.jpg")
	p.Fill("#f-alt", "A keyboard of walnut")
	p.Click("#product-upload")
	p.WaitText("#pictures", "A keyboard of walnut")
	p.Await(`document.querySelector("#pictures img").naturalWidth > 0`)
	p.Fill("#f-list_price", "299.00")
	p.Click("#product-save")
	p.WaitText("#product .note", "Saved.")
	s.press("check", false)
	p.WaitText("#checks", "No problems found.")
	s.press("warm", false)
	p.WaitText("#note", "Warmed up.")
	s.press("expose", true)
	p.WaitText("#state", "Exposed")
	p.Await(`document.querySelector("#do-check") === null && document.querySelector("#checks").textContent === ""`) // it is for drafts
	s.picture(p, "03-office-exposed")
	return p.Text(`location.pathname.split("/").at(-1)`)
}

// TestBrowserStory runs a sale in browsers. A merchant creates and exposes it. One buyer waits
// for the start, is admitted, buys and pays with the keyboard only. The second lets the order
// expire, and two others compete for its unit. Then the sale is sold out.
func TestBrowserStory(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.login(browsertest.Device{})
	starts := s.now().Add(time.Hour).Truncate(time.Second)
	url := s.system.ShopURL + "/sales/" + s.create(starts)

	alice := s.b.Page(t, "alice", browsertest.Device{Clock: time.Hour, ReducedMotion: true})
	bob := s.b.Page(t, "bob", browsertest.Device{Width: 375, Height: 740, Lang: "zh-CN", Clock: -time.Hour})
	carol := s.b.Page(t, "carol", browsertest.Device{Dark: true})
	dave := s.b.Page(t, "dave", browsertest.Device{Width: 375, Height: 740})
	alice.Open(s.system.ShopURL + "/")
	alice.WaitText(".sales h2", "Walnut keyboard")
	alice.Await(`document.querySelector(".sales img")?.naturalWidth > 0`)
	s.picture(alice, "04-list")
	alice.Open(s.system.ShopURL + "/c/autumn-keys")
	alice.WaitText(".campaign h2", "Walnut keyboard")
	alice.Click(".campaign a.button")
	bob.Open(url)
	stage(alice, "upcoming")
	stage(bob, "upcoming")
	s.jump(starts.Add(-40*time.Second), alice, bob)
	for _, p := range []*browsertest.Page{alice, bob} {
		p.Await(`document.querySelector(".clock").textContent.startsWith("00:")`)
		p.Await(`document.querySelector("#join").disabled`)
		if p.Text(noScroll) != "true" {
			t.Error("the countdown scrolls sideways")
		}
	}
	before := starts.Sub(s.now()).Seconds()
	shown := alice.Number(`document.querySelector(".clock").textContent.split(":").at(-1)`)
	if after := starts.Sub(s.now()).Seconds(); shown > before+1.5 || shown < after-1.5 {
		t.Errorf("the countdown of a device that is an hour ahead shows %g s, want %.1f to %.1f", shown, after, before)
	}
	s.picture(alice, "05-countdown-1280")
	s.picture(bob, "06-countdown-375-zh")

	// The button is enabled at the start, not before.
	s.jump(starts.Add(-2*time.Second), alice, bob)
	alice.Await(`!document.querySelector("#join").disabled`)
	if early := starts.Sub(s.now()); early > 150*time.Millisecond {
		t.Errorf("the button was enabled %s early", early)
	}
	stage(alice, "open")
	alice.Await(`document.activeElement !== null`)
	alice.TabTo("#join")
	alice.Key("Enter") // one click reserves a unit
	alice.WaitText(".receipt h2", "It is yours if you pay in time")
	s.wantSame(alice, ".receipt h2", "It is yours if you pay in time")
	s.picture(alice, "08-pay")
	alice.TabTo(`[data-do="pay"]`)
	alice.Key("Enter")
	alice.WaitText(".receipt .fault", "Please enter a name")
	alice.Await(`document.activeElement?.name === "name"`)
	alice.Type("Alice <b>Wang</b>")
	alice.Key("Tab")
	alice.Type("12")
	alice.Key("Enter")
	alice.WaitText(`.receipt .field:last-child .fault`, "Please enter a phone number")
	alice.Fill(`[name="phone"]`, "+86 (138) 0013-8000")
	alice.Fill(`[name="street"]`, "Prinsengracht 1")
	alice.Key("Enter")
	alice.WaitText(".receipt .address .fault", "Please choose a country or region.")
	alice.Do(`document.querySelector('[name="country"]').value = "NL"`)
	alice.Fill(`[name="city"]`, "Amsterdam")
	alice.Key("Enter")
	alice.WaitText(".receipt h2", "Paid. It is yours")
	alice.WaitText("[data-who]", "For Alice <b>Wang</b>, +86 (138) 0013-8000")
	alice.WaitText("[data-order]", "Order 0")
	alice.WaitText("[data-who]", "To Prinsengracht 1, Amsterdam, Netherlands")
	s.wantSame(alice, ".receipt h2", "Paid. It is yours")
	s.picture(alice, "09-paid")

	// Bob has the second unit, and lets it expire. Two users wait for it.
	bob.Click("#join")
	bob.WaitText(".receipt h2", "请在时限内付款")
	s.picture(bob, "10-pay-375-zh")
	bob.Click("summary")
	bob.Click(`[data-do="leave"]`)
	bob.WaitText(".receipt", "商品将退回活动")
	for _, p := range []*browsertest.Page{carol, dave} {
		p.Open(url)
		stage(p, "all_taken")
		p.Click("#join")
		stage(p, "line")
		s.wantSame(p, "#action h2", "You are in line")
	}
	s.picture(dave, "11-line-375")
	// Both were away for eight minutes, and keep their positions.
	s.jump(s.now().Add(8*time.Minute), bob, carol, dave)
	carol.WaitText("#note", "Your position is restored")
	dave.WaitText("#note", "Your position is restored")
	s.picture(dave, "07-restored-375")
	s.jump(s.now().Add(7*time.Minute), bob, carol, dave)
	bob.WaitText(".receipt h2", "超时未付款")
	s.wantSame(bob, ".receipt h2", "超时未付款")
	s.picture(bob, "12-expired-375-zh")

	// One unit is left: one of them gets it, without a click.
	const yours = `document.querySelector('.receipt[data-state="pending_pay"]')`
	var winner, loser *browsertest.Page
	redistest.Await(t, "one of them has the unit", func() error {
		if winner, loser = carol, dave; carol.Text("Boolean("+yours+")") == "true" {
			return nil
		}
		if winner, loser = dave, carol; dave.Text("Boolean("+yours+")") == "true" {
			return nil
		}
		return errors.New("neither has it")
	})
	stage(loser, "line")
	s.picture(loser, "13-race-lost")
	winner.Fill(`[name="name"]`, "王小明")
	winner.Fill(`[name="phone"]`, "13800138000")
	winner.Click(`[data-do="pay"]`)
	winner.WaitText(".receipt h2", "Paid. It is yours")
	stage(loser, "sold_out")
	s.wantSame(loser, "#action h2", "Sold out")
	stage(bob, "sold_out")
	s.picture(bob, "14-sold-out-375-zh")
	bob.Click("#switch")
	bob.WaitText("#action h2", "Sold out")
	winner.Open(s.system.ShopURL + "/orders")
	winner.WaitText(".receipt h2", "Paid. It is yours")
	s.picture(winner, "15-orders")

	s.office.Await(`document.querySelector("#b-paid").textContent === "2" && document.querySelector("#b-expired").textContent === "1"`)
	s.checkCurves()
	s.press("reconcile", false)
	s.office.WaitText("#note", "0 rows changed")
	s.office.WaitText("#log", "mei")
	s.office.Emulate(browsertest.Device{Height: 1700, Zone: "UTC"})
	s.picture(s.office, "16-office-board")
	s.office.Emulate(browsertest.Device{Zone: "UTC"})
	s.office.Click("#orders summary")
	s.office.WaitText("#orders tbody", "Alice <b>Wang</b>")
	s.office.WaitText("#orders tbody", "13800138000")
	s.office.WaitText("#orders tbody", "Amsterdam")
	if wide := s.office.Text(`(() => { const { scrollWidth, clientWidth } = document.querySelector("#orders .scroll"); return scrollWidth > clientWidth; })()`); wide != "false" {
		t.Error("the actions of the orders are out of sight")
	}
	s.picture(s.office, "17-office-orders")
	wantNoErrors(t, s.office, alice, bob, carol, dave)
	s.checkPictures()
}

// refunds refunds an order that a buyer has paid, with a reason.
func (s *story) refunds(buyer *browsertest.Page) {
	p := s.office
	buyer.Click("#join")
	buyer.Fill(`[name="name"]`, "Erin")
	buyer.Fill(`[name="phone"]`, "12345")
	buyer.Click(`[data-do="pay"]`)
	buyer.WaitText(".receipt h2", "Paid. It is yours")
	p.Click("#orders summary")
	p.Click("#orders summary") // loads the orders again
	p.Fill("#f-reason", "")
	p.Click("[data-refund]")
	p.WaitText("#f-reason-fault", "Required.") // before it asks
	p.Fill("#f-reason", "arrived broken")
	p.Click("[data-refund]")
	p.Click("#sure-yes")
	p.WaitText("#log", ": arrived broken")
	p.WaitText("#orders tbody", "refunded")
	buyer.WaitText(".receipt h2", "Cancelled")
}

// settings changes a running sale, after a mistake: more units for each buyer, and a campaign.
func (s *story) settings(buyer *browsertest.Page) {
	p := s.office
	p.Click("#settings summary")
	p.Fill("#settings #f-per_user", "11")
	p.Fill("#settings #f-campaign", "autumn-lamps")
	p.Click("#settings #save")
	p.WaitText("#f-per_user-fault", "Must be 1 to 10.")
	p.Fill("#settings #f-per_user", "2")
	s.picture(p, "29-office-settings")
	p.Click("#settings #save")
	p.WaitText("#note", "Saved.")
	p.WaitText("#log", "Campaign")
	buyer.Await(`document.querySelector("#campaign")?.getAttribute("href") === "/c/autumn-lamps"`)
}

// variants writes two variants of the product, edits one and removes the other.
func (s *story) variants() {
	p := s.office
	write := func(sku, zh, en, price string) {
		for name, text := range map[string]string{"sku": sku, "name_zh": zh, "name_en": en, "price": price} {
			p.Fill("#variant-"+name, text)
		}
		p.Click("#variant-save")
	}
	write("LAMP 2", "黑色", "Black", "249.00")
	p.WaitText("#variant-sku-fault", "This form is not accepted.")
	p.Fill("#variant-sku", "LAMP-2")
	p.Click("#variant-save")
	p.WaitText("#variants td", "LAMP-2")
	write("LAMP-3", "白色", "White", "259.00")
	p.WaitText("#variants td", "LAMP-3")
	p.Click(`[data-variant-edit="LAMP-2"]`)
	p.Fill("#variant-name_en", "Matt black")
	p.Click("#variant-save")
	p.WaitText("#variants td", "Matt black")
	p.Click(`[data-variant-remove="LAMP-3"]`)
	p.Click("#sure-yes")
	p.Await(`document.querySelectorAll("#variants tbody tr").length === 1`)
	s.picture(p, "30-office-variants")
}

// wantTranslated checks that a Chinese page of a sale has entries of the log, and problems, in Chinese.
func wantTranslated(t *testing.T, p *browsertest.Page) {
	t.Helper()
	got := p.Text(`import(document.querySelector("script[type=module]").src.replace("board.js", "log.js")).then(({ actor, logged, problem }) => [
		logged("refund due: payment default:p of 5 for reservation r1, which is expired"), logged("refunded order r1, payment p: at the payment provider"),
		logged("the payment provider has returned 19900 of 29900 of payment p for order r1", "CNY"), actor("flashsale"), actor("li"), problem("ledger unavailable: no route")].join("|"))`)
	if want := "订单 r1 待退款，订单状态：已过期|退款订单 r1：在支付服务商处退款|支付服务商已为订单 r1 退回 ¥199.00 / ¥299.00|系统|li|数据库不可用。"; got != want {
		t.Errorf("the log shows %s, want %s", got, want)
	}
}

// accounts adds an account that may only read, logs it in, and disables it.
func (s *story) accounts(id string) {
	p := s.office
	p.Open(s.system.OfficeURL + "/accounts")
	p.WaitText("#accounts td", "mei")
	p.Fill("#f-name", "li 丽")
	p.Click("#add")
	p.WaitText("#secret", "The password of li 丽")
	s.picture(p, "27-office-accounts")
	reader := s.b.Page(s.t, "reader", browsertest.Device{Lang: "zh-CN", Width: 375, Height: 740, Dark: true})
	reader.Open(s.system.OfficeURL + "/sales/" + id)
	reader.Fill("#f-name", "li 丽")
	reader.Fill("#f-password", p.Text(`document.querySelector("#secret code").textContent`))
	reader.Click("#login")
	reader.WaitText("#log td", "") // the last part of the page
	reader.Await(`document.querySelector("#do-pause, #do-copy, #add, #product-save") === null && document.querySelector("#networks").hidden`)
	wantTranslated(s.t, reader)
	reader.Open(s.system.OfficeURL + "/accounts")
	reader.WaitText("#own", "只读")
	if reader.Text(`document.querySelector("#accounts") === null`) != "true" {
		s.t.Error("an account that may only read sees the accounts")
	}
	s.picture(reader, "28-office-own-375")
	p.Click(`[data-do="disable"][data-name="li 丽"]`)
	p.Click("#sure-yes")
	p.Await(`document.querySelector('[data-do="enable"][data-name="li 丽"]') !== null`)
	reader.Reload()
	reader.Await(`document.querySelector("#login") !== null`)
}

// checkCurves checks that the page draws a line in each chart, and that the tables have the
// figures of the story: two units paid.
func (s *story) checkCurves() {
	s.t.Helper()
	p := s.office
	p.Await(`[...document.querySelectorAll("#curves canvas")].filter((c) => {
		const { data } = c.getContext("2d").getImageData(0, 0, c.width, c.height);
		const colours = new Set();
		for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255) colours.add(data[i] + " " + data[i + 1] + " " + data[i + 2]);
		return colours.size > 2;
	}).length === 5`)
	p.WaitText("#curve-conversion .legend", "66.7%")
	p.Click("#curve-orders button")
	p.Await(`document.querySelector("#curve-orders tbody tr").innerText.split("\t").slice(1).join() === "3,3,2"`)
	p.Click(`[data-range="minutes"]`)
	if p.Text(noScroll) != "true" {
		s.t.Error("the board scrolls sideways")
	}
	wantAccessible(s.t, p, "the board")
}

// TestBrowserStops runs the actions of a merchant on a running sale: pause, resume, more stock,
// and the kill switch. Buyers cancel, and pay too late.
func TestBrowserStops(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.login(browsertest.Device{})
	now := s.now().Truncate(time.Millisecond)
	made := expose(t, s.system.Merchants, "mei", sale.Draft{
		SKU: "LAMP-1", Title: "Lamp 台灯", Price: 19900, Currency: "CNY", Stock: 1, PerUser: 1, StartsAt: now.Add(time.Second), EndsAt: now.Add(time.Hour),
		Headroom: 3, Queue: sale.Fifo, PayWithin: 15 * time.Minute, TokenFor: 10 * time.Minute,
	})
	s.office.Open(s.system.OfficeURL + "/sales/" + made.ID)
	s.office.WaitText("#state", "Exposed")
	erin := s.b.Page(t, "erin", browsertest.Device{Width: 375, Height: 740})
	frank := s.b.Page(t, "frank", browsertest.Device{Lang: "zh-CN", Dark: true})
	erin.Open(s.system.ShopURL + "/sales/" + made.ID)
	stage(erin, "open")

	s.press("pause", true)
	s.office.WaitText("#state", "Paused")
	erin.WaitText(`[data-banner="paused"]`, "The sale is paused and will continue soon.")
	s.wantSame(erin, `[data-banner="paused"]`, "The sale is paused and will continue soon.")
	s.picture(erin, "20-paused-375")
	s.picture(s.office, "21-office-paused")
	s.press("resume", true)
	stage(erin, "open")
	if erin.Text(`document.querySelector("[data-banner]") === null`) != "true" {
		t.Error("the banner stays after the sale is resumed")
	}

	// A cancelled unit is free for the next user.
	erin.Click("#join")
	erin.Click(`[data-do="cancel"]`)
	erin.Click("#sure-yes")
	erin.WaitText(".receipt h2", "Cancelled")
	s.wantSame(erin, ".receipt h2", "Cancelled")
	s.picture(erin, "22-cancelled-375")

	// A late payment is to be refunded. The provider calls back by the machine's clock, a moment
	// after the order expires by that of the page.
	before := s.now()
	erin.Click("#join")
	erin.Await(`document.querySelector('[data-do="late"]')?.disabled`) // the test provider's maximum is 10 minutes
	s.stop(before.Add(15*time.Minute-12*time.Second), erin)
	erin.Await(`!document.querySelector('[data-do="late"]').disabled`)
	erin.Click("summary")
	erin.Click(`[data-do="late"]`)
	s.jump(s.now().Add(time.Minute), erin)
	erin.WaitText(".receipt h2", "Not paid in time")
	erin.WaitText("[data-refund]", "Refunded") // by the mock provider, at once
	s.wantSame(erin, "[data-refund]", "Refunded")
	s.picture(erin, "23-refund-375")

	s.office.Fill("#f-units", "3")
	s.office.Click("#add")
	s.office.Click("#sure-yes")
	s.office.WaitText("#note", "There are 4 units in all now.")
	frank.Open(s.system.ShopURL + "/sales/" + made.ID)
	frank.Await(`document.querySelector("#free").textContent.startsWith("4 /")`)

	// The merchant cancels an unpaid order, with a reason.
	erin.Click("#join")
	erin.Await(`document.querySelector('[data-do="cancel"]')`)
	s.office.Click("#orders summary")
	s.office.Fill("#f-reason", "typed twice")
	s.office.Click("[data-cancel]")
	s.picture(s.office, "26-office-cancels")
	s.office.Click("#sure-yes")
	s.office.WaitText("#log", ": typed twice")
	erin.WaitText(".receipt h2", "Cancelled")
	s.refunds(erin)
	s.settings(frank)
	s.variants()

	s.press("kill", true)
	s.office.WaitText("#state", "Ended")
	s.office.WaitText("#why", "kill switch")
	for _, p := range []*browsertest.Page{erin, frank} {
		stage(p, "ended")
	}
	s.wantSame(frank, "#action h2", "活动已结束")
	s.picture(frank, "24-killed-zh")
	for link, name := range map[string]string{"#csv": made.ID + ".csv", "#jsonl": made.ID + ".jsonl"} {
		if text := s.office.Download(link, name); !strings.Contains(text, "cancelled") || !strings.Contains(text, "expired") {
			t.Errorf("%s: %q", name, text)
		}
	}
	s.office.Click("#do-copy")
	s.office.WaitText("#state", "Draft")
	s.office.WaitText("#log", "copied from "+made.ID)
	s.picture(s.office, "25-office-copy")
	s.accounts(made.ID)
	s.office.Click("#logout")
	s.office.WaitText("h1", "Log in")
	wantNoErrors(t, s.office, erin, frank)
	s.checkPictures()
}

// checkPictures checks that every picture exists.
func (s *story) checkPictures() {
	s.t.Helper()
	for _, name := range s.taken {
		if file, err := os.Stat(s.shot(name)); err != nil || file.Size() < 5_000 {
			s.t.Errorf("picture %s: %v, %v", name, file, err)
		}
	}
}
