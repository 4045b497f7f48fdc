package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// A Device describes the device that shows a page.
type Device struct {
	Width, Height int           // in CSS pixels; 1280 × 900 if 0
	Lang          string        // of Accept-Language; en if empty
	Dark          bool          // prefers-color-scheme
	ReducedMotion bool          // prefers-reduced-motion
	Zone          string        // the time zone; that of the machine if empty
	Clock         time.Duration // how far the device's clock is ahead
}

// A Page is a tab in a profile of its own, with its own cookies and its own storage. It is
// closed with its test.
type Page struct {
	t    testing.TB
	ctx  context.Context
	name string

	mu     sync.Mutex
	errors []string
}

// Page opens a tab. Failure messages carry its name.
func (b *Browser) Page(t testing.TB, name string, d Device) *Page {
	t.Helper()
	ctx, stop := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(stop)
	p := &Page{t: t, ctx: ctx, name: name}
	p.must(chromedp.Listen(ctx, p.event))
	p.Emulate(d)
	return p
}

func (p *Page) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}

// call sends one command and fails the test if the browser returns an error.
func call[P, R any](p *Page, command cdp.Command[P, R], params P) R {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, stepTimeout)
	defer cancel()
	r, err := chromedp.Call(ctx, command, params)
	p.must(err)
	return r
}

// Emulate changes the device. A zone, a language and a clock apply from the next Open on.
func (p *Page) Emulate(d Device) {
	p.t.Helper()
	if d.Width == 0 {
		d.Width = 1280
	}
	if d.Height == 0 {
		d.Height = 900
	}
	if d.Lang == "" {
		d.Lang = "en"
	}
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: int64(d.Width), Height: int64(d.Height), DeviceScaleFactor: 1})
	scheme, motion := "light", "no-preference"
	if d.Dark {
		scheme = "dark"
	}
	if d.ReducedMotion {
		motion = "reduce"
	}
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion}}})
	call(p, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{UserAgent: "browsertest", AcceptLanguage: d.Lang})
	if d.Zone != "" {
		call(p, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: d.Zone})
	}
	if d.Clock != 0 {
		call(p, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: fmt.Sprintf(
			`{const D = Date; globalThis.Date = class extends D { constructor(...a) { a.length ? super(...a) : super(D.now() + %[1]d); } static now() { return D.now() + %[1]d; } };}`,
			d.Clock.Milliseconds())})
	}
}

// event keeps the page's errors and warnings. Chromium also logs every response of 400 and
// above as an error; those of the HTTP API are expected.
func (p *Page) event(event any) {
	var problem string
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type != runtime.ConsoleAPICalledTypeError && e.Type != runtime.ConsoleAPICalledTypeAssert && e.Type != runtime.ConsoleAPICalledTypeWarning {
			return
		}
		problem = fmt.Sprintf("console.%s:", e.Type)
		for _, a := range e.Args {
			problem += fmt.Sprintf(" %s%s", a.Value, a.Description)
		}
	case *runtime.EventExceptionThrown:
		problem = exception(e.ExceptionDetails)
	case *log.EventEntryAdded:
		if e.Entry.Level != log.EntryLevelError || e.Entry.Source == log.EntrySourceNetwork && (strings.Contains(e.Entry.URL, "/api/") || strings.Contains(e.Entry.URL, "/v1/")) {
			return
		}
		problem = fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
	default:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errors = append(p.errors, problem)
}

func exception(e *runtime.ExceptionDetails) string {
	if e.Exception == nil {
		return e.Text
	}
	return e.Text + " " + e.Exception.Description
}

// Errors returns the errors and warnings so far: those of the page's scripts, what its
// content security policy forbade, and files that were not found.
func (p *Page) Errors() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.errors
}

// Open navigates to an address and waits until the document is loaded.
func (p *Page) Open(url string) {
	p.t.Helper()
	if r := call(p, page.Navigate, page.NavigateParams{URL: url}); r.ErrorText != "" {
		p.t.Fatalf("%s: open %s: %s", p.name, url, r.ErrorText)
	}
	p.Await(`document.readyState === "complete"`)
}

// Reload loads the page again.
func (p *Page) Reload() {
	p.t.Helper()
	p.leave(func() { call(p, page.Reload, page.ReloadParams{}) })
}

// Back presses the back button. The browser itself goes back: a script that did so could be gone
// before its reply.
func (p *Page) Back() {
	p.t.Helper()
	p.leave(func() {
		h := call(p, page.GetNavigationHistory, cdp.Empty{})
		if h.CurrentIndex == 0 {
			p.t.Fatalf("%s: back: there is no page before %s", p.name, h.Entries[0].URL)
		}
		call(p, page.NavigateToHistoryEntry, page.NavigateToHistoryEntryParams{EntryID: h.Entries[h.CurrentIndex-1].ID})
	})
}

// leave waits until another document is shown, or the same one again from the cache.
func (p *Page) leave(how func()) {
	p.t.Helper()
	p.Do(`window.stays = true; addEventListener("pageshow", () => { window.stays = false; })`)
	how()
	p.Await(`!window.stays && document.readyState === "complete"`)
}

// Do runs a statement.
func (p *Page) Do(script string) {
	p.t.Helper()
	_, err := p.eval(script)
	p.must(err)
}

// Text returns an expression's value as text; of a promise, the value it resolves to.
func (p *Page) Text(expression string) string {
	p.t.Helper()
	value, err := p.eval("(async () => String(await (" + expression + ")))()")
	p.must(err)
	var s string
	p.must(json.Unmarshal(value, &s))
	return s
}

// Number returns an expression's value as a number.
func (p *Page) Number(expression string) float64 {
	p.t.Helper()
	n, err := strconv.ParseFloat(p.Text("Number("+expression+")"), 64)
	if err != nil {
		p.t.Fatalf("%s: %s: %v", p.name, expression, err)
	}
	return n
}

// eval returns a script's value as JSON, or nil if it has none.
func (p *Page) eval(script string) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(p.ctx, stepTimeout)
	defer cancel()
	yes := true
	r, err := chromedp.Call(ctx, runtime.Evaluate, runtime.EvaluateParams{
		Expression: script, ReturnByValue: &yes, AwaitPromise: &yes, UserGesture: &yes})
	switch {
	case err != nil:
		return nil, err
	case r.ExceptionDetails != nil:
		return nil, fmt.Errorf("%s: %s", script, exception(r.ExceptionDetails))
	}
	return json.RawMessage(r.Result.Value), nil
}

// Await waits until an expression is true.
func (p *Page) Await(expression string) { p.t.Helper(); p.AwaitFor(stepTimeout, expression) }

// AwaitFor waits for at most d until an expression is true. It asks the page again and
// again, because a page that is being left evaluates nothing.
func (p *Page) AwaitFor(d time.Duration, expression string) {
	p.t.Helper()
	deadline := time.Now().Add(d)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		value, err := p.eval("Boolean(" + expression + ")")
		if err == nil && string(value) == "true" {
			return
		}
		if time.Now().After(deadline) {
			shown, _ := p.eval("location.pathname + ': ' + document.body.innerText")
			p.t.Fatalf("%s: not true within %s: %s (%v)\nerrors: %q\nthe page: %s", p.name, d, expression, err, p.Errors(), shown)
		}
	}
}

// WaitText waits until a visible element of a selector contains a text.
func (p *Page) WaitText(selector, text string) {
	p.t.Helper()
	p.Await(fmt.Sprintf(`[...document.querySelectorAll(%s)].some((e) => e.checkVisibility() && e.textContent.includes(%s))`, quote(selector), quote(text)))
}

func quote(s string) string {
	text, _ := json.Marshal(s)
	return string(text)
}

// Click waits until an element can be clicked and has stopped moving, and clicks it with
// the mouse.
func (p *Page) Click(selector string) {
	p.t.Helper()
	p.Await(fmt.Sprintf(`(() => {
		const e = document.querySelector(%s);
		if (!e || !e.checkVisibility() || e.disabled || e.getAttribute("aria-disabled") === "true") return false;
		e.scrollIntoView({ block: "center", behavior: "instant" });
		const r = e.getBoundingClientRect(), x = r.x + r.width / 2, y = r.y + r.height / 2;
		const top = document.elementFromPoint(x, y);
		if (!top || !(e.contains(top) || top.contains(e))) return false;
		const before = window.clickAt;
		window.clickAt = [x, y];
		return before && before[0] === x && before[1] === y;
	})()`, quote(selector)))
	x, y := p.Number("window.clickAt[0]"), p.Number("window.clickAt[1]")
	p.Do("delete window.clickAt")
	p.do(chromedp.MouseClickXY(x, y))
}

// do runs an action of chromedp.
func (p *Page) do(action chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, stepTimeout)
	defer cancel()
	p.must(chromedp.Do(ctx, action))
}

// Fill replaces the text of an input, as typing over it does.
func (p *Page) Fill(selector, text string) {
	p.t.Helper()
	p.Await(fmt.Sprintf(`(() => {
		const e = document.querySelector(%s);
		if (!e?.checkVisibility()) return false;
		e.focus();
		e.value = %s;
		for (const kind of ["input", "change"]) e.dispatchEvent(new Event(kind, { bubbles: true }));
		return true;
	})()`, quote(selector), quote(text)))
}

// Type types text where the focus is.
func (p *Page) Type(text string) {
	p.t.Helper()
	call(p, input.InsertText, input.InsertTextParams{Text: text})
}

// keys has the codes of the keys that are no characters.
var keys = map[string]string{"Tab": kb.Tab, "Enter": kb.Enter, "Space": " ", "Escape": kb.Escape, "PageUp": kb.PageUp, "ArrowRight": kb.ArrowRight}

// Key presses a key: a character or one of keys, with Shift+ or Ctrl+ before it if need be.
func (p *Page) Key(name string) {
	p.t.Helper()
	var options []chromedp.KeyOption
	key, shift := strings.CutPrefix(name, "Shift+")
	if shift {
		options = append(options, chromedp.KeyModifiers(chromedp.ModifierShift))
	}
	key, ctrl := strings.CutPrefix(key, "Ctrl+")
	if ctrl {
		options = append(options, chromedp.KeyModifiers(chromedp.ModifierCtrl))
	}
	code := keys[key]
	if len(key) == 1 {
		code = key
	}
	if code == "" {
		p.t.Fatalf("%s: key %q: want a character or a key that the tests know", p.name, name)
	}
	p.do(chromedp.KeyEvent(code, options...))
}

// TabTo presses Tab until the focus is on a selector's element, and checks that the focus
// is visible on every element before it.
func (p *Page) TabTo(selector string) {
	p.t.Helper()
	p.Await(fmt.Sprintf(`document.querySelector(%s)?.checkVisibility()`, quote(selector)))
	for range 60 {
		p.Key("Tab")
		if p.Text(`(() => { const e = document.activeElement; return e === document.body || getComputedStyle(e).outlineStyle !== "none"; })()`) != "true" {
			p.t.Errorf("%s: the focus is not visible on %s", p.name, p.Text("document.activeElement.outerHTML"))
		}
		if p.Text(fmt.Sprintf("document.activeElement.matches(%s)", quote(selector))) == "true" {
			return
		}
	}
	p.t.Fatalf("%s: Tab does not reach %s", p.name, selector)
}

// TabToWords presses Tab until the focus is on an element whose name begins with words, as a user
// finds it: its label, or its text.
func (p *Page) TabToWords(words string) {
	p.t.Helper()
	const name = `(e) => (e.getAttribute("aria-label") ?? e.labels?.[0]?.innerText ?? e.innerText ?? "").trim()`
	starts := fmt.Sprintf(`((e) => e.checkVisibility() && (%s)(e).startsWith(%s))`, name, quote(words))
	p.Await(fmt.Sprintf(`[...document.querySelectorAll("a, button, input, select, textarea")].some(%s)`, starts))
	for range 80 {
		p.Key("Tab")
		if p.Text(fmt.Sprintf(`%s(document.activeElement)`, starts)) == "true" {
			return
		}
	}
	p.t.Fatalf("%s: Tab does not reach %q", p.name, words)
}

// Screenshot writes a picture of the page to a file.
func (p *Page) Screenshot(file string) {
	p.t.Helper()
	fast := true
	r := call(p, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng, OptimizeForSpeed: &fast})
	p.must(os.WriteFile(file, r.Data, 0o644))
}
