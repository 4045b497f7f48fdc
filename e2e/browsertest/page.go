package browsertest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Look is what a page believes of the device that shows it.
type Look struct {
	Width, Height int    // in CSS pixels; 1280 × 900 if 0
	Lang          string // what Accept-Language says; en if empty
	Dark          bool
	Still         bool          // prefers-reduced-motion
	Zone          string        // the time zone; that of the machine if empty
	Clock         time.Duration // how far the device's clock is ahead
}

// A Page is a tab in a profile of its own: with its own cookies and its own storage. It is
// closed with its test.
type Page struct {
	t       testing.TB
	b       *Browser
	session string
	name    string

	mu     sync.Mutex
	errors []string
}

// Page opens a tab. Its name stands in what it says of failures.
func (b *Browser) Page(t testing.TB, name string, l Look) *Page {
	t.Helper()
	p := &Page{t: t, b: b, name: name}
	var context struct {
		ID string `json:"browserContextId"`
	}
	p.must(&context, "Target.createBrowserContext", map[string]any{"disposeOnDetach": true})
	t.Cleanup(func() {
		b.mu.Lock()
		delete(b.see, p.session)
		b.mu.Unlock()
		b.call("", "Target.disposeBrowserContext", map[string]any{"browserContextId": context.ID}) // a browser that is gone has none
	})
	var target struct {
		ID string `json:"targetId"`
	}
	p.must(&target, "Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": context.ID})
	var attached struct {
		ID string `json:"sessionId"`
	}
	p.must(&attached, "Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true})
	p.session = attached.ID
	b.mu.Lock()
	b.see[p.session] = p.event
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		p.must(nil, domain+".enable", nil)
	}
	p.Look(l)
	return p
}

// Look changes the device. A zone, a language and a clock count from the next Open on.
func (p *Page) Look(l Look) {
	p.t.Helper()
	if l.Width == 0 {
		l.Width = 1280
	}
	if l.Height == 0 {
		l.Height = 900
	}
	p.must(nil, "Emulation.setDeviceMetricsOverride", map[string]any{"width": l.Width, "height": l.Height, "deviceScaleFactor": 1, "mobile": false})
	scheme, motion := "light", "no-preference"
	if l.Dark {
		scheme = "dark"
	}
	if l.Still {
		motion = "reduce"
	}
	p.must(nil, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{
		{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": motion}}})
	if l.Lang == "" {
		l.Lang = "en"
	}
	p.must(nil, "Emulation.setUserAgentOverride", map[string]any{"userAgent": "browsertest", "acceptLanguage": l.Lang})
	if l.Zone != "" {
		p.must(nil, "Emulation.setTimezoneOverride", map[string]any{"timezoneId": l.Zone})
	}
	if l.Clock != 0 {
		p.must(nil, "Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": fmt.Sprintf(
			`{const D = Date; globalThis.Date = class extends D { constructor(...a) { a.length ? super(...a) : super(D.now() + %[1]d); } static now() { return D.now() + %[1]d; } };}`,
			l.Clock.Milliseconds())})
	}
}

func (p *Page) must(result any, method string, params any) {
	p.t.Helper()
	text, err := p.b.call(p.session, method, params)
	if err == nil && result != nil {
		err = json.Unmarshal(text, result)
	}
	if err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}

// event keeps what a page complains about. A browser also logs every answer of 400 and
// above as an error; those of the HTTP interface are answers like others.
func (p *Page) event(method string, params json.RawMessage) {
	var e struct {
		Type  string `json:"type"`
		Args  []struct{ Value, Description any }
		Entry struct{ Source, Level, Text, URL string }
		Exc   struct {
			Text      string
			Exception struct{ Description string }
		} `json:"exceptionDetails"`
	}
	if json.Unmarshal(params, &e) != nil {
		return
	}
	complaint := ""
	switch {
	case method == "Runtime.consoleAPICalled" && (e.Type == "error" || e.Type == "assert" || e.Type == "warning"):
		complaint = fmt.Sprintf("console.%s: %v", e.Type, e.Args)
	case method == "Runtime.exceptionThrown":
		complaint = e.Exc.Text + " " + e.Exc.Exception.Description
	case method == "Log.entryAdded" && e.Entry.Level == "error" && !(e.Entry.Source == "network" && strings.Contains(e.Entry.URL, "/api/")):
		complaint = e.Entry.Source + ": " + e.Entry.Text + " " + e.Entry.URL
	default:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errors = append(p.errors, complaint)
}

// Errors returns what the page has complained about so far: errors and warnings of its
// scripts, what its policy forbade, and files that were not there.
func (p *Page) Errors() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.errors
}

// Open goes to an address and waits until its document is read.
func (p *Page) Open(url string) {
	p.t.Helper()
	var result struct {
		Error string `json:"errorText"`
	}
	p.must(&result, "Page.navigate", map[string]any{"url": url})
	if result.Error != "" {
		p.t.Fatalf("%s: %s: %s", p.name, url, result.Error)
	}
	p.Await(`document.readyState === "complete"`)
}

// Reload loads the page again.
func (p *Page) Reload() {
	p.t.Helper()
	p.leave(func() { p.must(nil, "Page.reload", nil) })
}

// Back goes back, as its button does, and Forward forward.
func (p *Page) Back()    { p.t.Helper(); p.leave(func() { p.Do(`history.back()`) }) }
func (p *Page) Forward() { p.t.Helper(); p.leave(func() { p.Do(`history.forward()`) }) }

// leave waits until another document is there, or the same one again from the cache.
func (p *Page) leave(how func()) {
	p.t.Helper()
	p.Do(`window.stays = true; addEventListener("pageshow", () => { window.stays = false; })`)
	how()
	p.Await(`!window.stays && document.readyState === "complete"`)
}

// Do runs a statement.
func (p *Page) Do(script string) {
	p.t.Helper()
	if _, err := p.eval(script); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}

// Text returns an expression's value as text, that of a promise when it has one.
func (p *Page) Text(expression string) string {
	p.t.Helper()
	value, err := p.eval("(async () => String(await (" + expression + ")))()")
	if err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
	var s string
	json.Unmarshal(value, &s)
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

func (p *Page) eval(script string) (json.RawMessage, error) {
	text, err := p.b.call(p.session, "Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true, "awaitPromise": true, "userGesture": true})
	if err != nil {
		return nil, err
	}
	var result struct {
		Result struct{ Value json.RawMessage }
		Exc    *struct {
			Text      string
			Exception struct{ Description string }
		} `json:"exceptionDetails"`
	}
	if err := json.Unmarshal(text, &result); err != nil {
		return nil, err
	}
	if result.Exc != nil {
		return nil, fmt.Errorf("%s: %s %s", script, result.Exc.Text, result.Exc.Exception.Description)
	}
	return result.Result.Value, nil
}

// Await waits until an expression is true. A page that is just being left has no answer.
func (p *Page) Await(expression string) { p.t.Helper(); p.AwaitFor(patience, expression) }

// AwaitFor is Await with a time of its own.
func (p *Page) AwaitFor(d time.Duration, expression string) {
	p.t.Helper()
	deadline := time.Now().Add(d)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		value, err := p.eval("Boolean(" + expression + ")")
		if err == nil && bytes.Equal(value, []byte("true")) {
			return
		}
		if time.Now().After(deadline) {
			seen, _ := p.eval("location.pathname + ': ' + document.body.innerText")
			p.t.Fatalf("%s: not within %s: %s (%v)\ncomplaints: %q\nthe page: %s", p.name, d, expression, err, p.Errors(), seen)
		}
	}
}

// Sees waits until a selector's first visible element has a text in it; any if it is empty.
func (p *Page) Sees(selector, text string) {
	p.t.Helper()
	p.Await(fmt.Sprintf(`[...document.querySelectorAll(%s)].some((e) => e.checkVisibility() && e.textContent.includes(%s))`, quote(selector), quote(text)))
}

func quote(s string) string {
	text, _ := json.Marshal(s)
	return string(text)
}

// Click waits for an element that can be clicked and clicks it with the mouse.
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
		return before && before[0] === x && before[1] === y; // it does not move any more
	})()`, quote(selector)))
	x, y := p.Number("window.clickAt[0]"), p.Number("window.clickAt[1]")
	p.Do("delete window.clickAt")
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		p.must(nil, "Input.dispatchMouseEvent", map[string]any{"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1})
	}
}

// Fill puts text into an input as if it were typed over what is there.
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
	p.must(nil, "Input.insertText", map[string]any{"text": text})
}

// Key presses a key: Tab, Shift+Tab, Enter, Space or Escape.
func (p *Page) Key(name string) {
	p.t.Helper()
	key, shift := strings.CutPrefix(name, "Shift+")
	codes := map[string]int{"Tab": 9, "Enter": 13, "Space": 32, "Escape": 27}
	e := map[string]any{"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
	switch key {
	case "Enter":
		e["text"] = "\r"
	case "Space":
		e["key"], e["text"] = " ", " "
	}
	if shift {
		e["modifiers"] = 8
	}
	for _, kind := range []string{"keyDown", "keyUp"} {
		e["type"] = kind
		p.must(nil, "Input.dispatchKeyEvent", e)
	}
}

// TabTo presses Tab until the focus is on a selector's element, as who has no mouse does,
// and checks that the focus can be seen on every way.
func (p *Page) TabTo(selector string) {
	p.t.Helper()
	p.Await(fmt.Sprintf(`document.querySelector(%s)?.checkVisibility()`, quote(selector)))
	for range 60 {
		p.Key("Tab")
		if p.Text(`(() => { const e = document.activeElement; return e === document.body || getComputedStyle(e).outlineStyle !== "none"; })()`) != "true" {
			p.t.Errorf("%s: the focus cannot be seen on %s", p.name, p.Text("document.activeElement.outerHTML"))
		}
		if p.Text(fmt.Sprintf("document.activeElement.matches(%s)", quote(selector))) == "true" {
			return
		}
	}
	p.t.Fatalf("%s: Tab does not come to %s", p.name, selector)
}

// Shot writes a picture of the page to a file.
func (p *Page) Shot(file string) {
	p.t.Helper()
	var shot struct{ Data string }
	p.must(&shot, "Page.captureScreenshot", map[string]any{"format": "png", "optimizeForSpeed": true})
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(file, png, 0o644)
	}
	if err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}
