package flashsale_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/browsertest"
	"github.com/floodweir/weir/flashsale/captcha"
	"github.com/floodweir/weir/flashsale/run"
)

// captchaSecret is the secret of the widget of a captchaProvider.
const captchaSecret = "widget-secret"

// A captchaProvider is a fake of Turnstile: its script, its widget in a frame of its own origin,
// and siteverify. It has another widget too, by the hook of the pages.
type captchaProvider struct {
	URL string

	mu       sync.Mutex
	noScript bool              // the script and the widget are unavailable
	noVerify bool              // siteverify is unavailable
	tokens   map[string]string // the action of each solved token
	spent    []string          // tokens that are not valid any more: used or expired
	asked    []string          // the tokens of siteverify and what it returned
}

// captchaScript is the part of Turnstile's interface that the pages use. As Turnstile does, it
// refuses an action of more than 32 characters.
const captchaScript = `{
	const shown = new Map();
	let last = 0;
	addEventListener("message", ({ origin, data: { id, token } }) => {
		if (origin === ORIGIN && shown.has(id)) { shown.get(id).callback(token); window.turnstile.solved++; }
	});
	window.turnstile = {
		solved: 0,
		render(element, options) {
			if (!/^[A-Za-z0-9_-]{1,32}$/.test(options.action)) throw new Error("action " + options.action);
			const id = "w" + ++last, frame = document.createElement("iframe");
			const { sitekey, action, language, theme, size } = options;
			frame.src = ORIGIN + "/frame?" + new URLSearchParams({ id, sitekey, action, language, theme, size });
			frame.title = "Captcha";
			frame.onload = () => { frame.className = "loaded"; };
			frame.height = 65;
			frame.width = 300;
			element.append(frame);
			shown.set(id, { ...options, frame });
			return id;
		},
		remove(id) { shown.get(id).frame.remove(); shown.delete(id); },
		expire() { for (const w of [...shown.values()]) w["expired-callback"](); },
		fail() { for (const w of [...shown.values()]) w["error-callback"]("300030"); },
	};
}`

// captchaFrame is the widget: a button that fills the frame.
const captchaFrame = `<!doctype html><title>Captcha</title><script>
	addEventListener("click", async () => {
		const q = new URLSearchParams(location.search);
		const token = await (await fetch("/solve?action=" + q.get("action"), { method: "POST" })).text();
		parent.postMessage({ id: q.get("id"), token }, "*");
	});
</script><button style="position:fixed;inset:0;width:100%%">I am human %s</button>`

// hookScript is the widget of another provider: a button in the page.
const hookScript = `window.flashsaleCaptcha = ({ element, siteKey, action, language, theme, expired }) => new Promise((done) => {
	const button = document.createElement("button");
	button.textContent = ["puzzle", siteKey, language, theme, typeof expired].join(" ");
	button.addEventListener("click", async () => done(await (await fetch(ORIGIN + "/solve?action=" + action, { method: "POST" })).text()));
	element.replaceChildren(button);
});`

func newCaptchaProvider(t *testing.T) *captchaProvider {
	p := &captchaProvider{tokens: map[string]string{}}
	mux := http.NewServeMux()
	script := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.noScript {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, strings.ReplaceAll(text, "ORIGIN", `"`+p.URL+`"`))
		}
	}
	mux.HandleFunc("GET /api.js", script(captchaScript))
	mux.HandleFunc("GET /hook.js", script(hookScript))
	mux.HandleFunc("GET /frame", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, captchaFrame, html.EscapeString(r.FormValue("language")))
	})
	mux.HandleFunc("POST /solve", func(w http.ResponseWriter, r *http.Request) {
		token := rand.Text()
		p.set(func() { p.tokens[token] = r.FormValue("action") })
		w.Header().Set("Access-Control-Allow-Origin", "*")
		fmt.Fprint(w, token)
	})
	mux.HandleFunc("POST /siteverify", p.verify)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p.URL = server.URL
	return p
}

func (p *captchaProvider) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// verify accepts each token once.
func (p *captchaProvider) verify(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	token := r.FormValue("response")
	action, solved := p.tokens[token]
	codes := []string{}
	switch {
	case p.noVerify:
		w.WriteHeader(http.StatusServiceUnavailable)
		p.asked = append(p.asked, "unavailable")
		return
	case r.FormValue("secret") != captchaSecret:
		codes = append(codes, "invalid-input-secret")
	case !solved:
		codes = append(codes, "invalid-input-response")
	case slices.Contains(p.spent, token):
		codes = append(codes, "timeout-or-duplicate")
	}
	p.spent = append(p.spent, token)
	p.asked = append(p.asked, strings.Join(codes, " "))
	json.NewEncoder(w).Encode(map[string]any{"success": len(codes) == 0, "error-codes": codes, "hostname": "127.0.0.1", "action": action})
}

// expire ends the validity of all tokens so far.
func (p *captchaProvider) expire() {
	p.set(func() {
		for token := range p.tokens {
			p.spent = append(p.spent, token)
		}
	})
}

// wantAsked checks what siteverify has returned since the last call, "" for a success.
func (p *captchaProvider) wantAsked(t *testing.T, what string, want ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.asked, want) {
		t.Errorf("%s: siteverify returned %q, want %q", what, p.asked, want)
	}
	p.asked = nil
}

// captchaShop starts a shop with a captcha and an open sale, and returns the URL of its page.
func captchaShop(t *testing.T, captcha run.Captcha, challenge captcha.Challenge) (url string) {
	s := newStory(t, func(c *run.Config) { c.Captcha, c.Challenge = captcha, challenge })
	return s.costly(0, s.now().Truncate(time.Millisecond))
}

const (
	widgetFrame = "#captcha iframe.loaded" // a click before that is lost
	noWidget    = `!document.querySelector("#captcha")?.checkVisibility()`
	unpaid      = "It is yours if you pay in time"
)

// TestBrowserCaptcha checks that a page shows Turnstile's widget and sends each token once: after
// the click or before it, again if the token was used or has expired.
func TestBrowserCaptcha(t *testing.T) {
	t.Parallel()
	b := chromium.use(t)
	provider := newCaptchaProvider(t)
	url := captchaShop(t, run.Captcha{SiteKey: "site-key", Secret: captchaSecret, Script: provider.URL + "/api.js?render=explicit", Siteverify: provider.URL + "/siteverify"}, nil)
	shot := shots(t)
	open := func(name string, d browsertest.Device) *browsertest.Page {
		t.Helper()
		p := b.Page(t, name, d)
		p.Open(url)
		stage(p, "open")
		p.Await(`document.querySelector("#captcha iframe") !== null`)
		return p
	}

	solve := func(p *browsertest.Page) {
		t.Helper()
		p.Click(widgetFrame)
		p.Await("turnstile.solved === 1")
	}

	// The click comes first, and is sent when the captcha is solved.
	ann := open("ann", browsertest.Device{Width: 375, Height: 740, Lang: "zh-CN", Dark: true})
	src := ann.Text(`document.querySelector("#captcha iframe").src`)
	for _, want := range []string{"sitekey=site-key", "language=zh-CN", "theme=dark", "size=flexible", "action=" + url[strings.LastIndex(url, "/")+1:]} {
		if !strings.Contains(src, want) {
			t.Errorf("the widget is %s, want %s in it", src, want)
		}
	}
	ann.Click("#join")
	ann.WaitText("#note", "请完成下方的验证码")
	ann.Await(`document.querySelector("#join").getAttribute("aria-disabled") === "true"`)
	polls := fmt.Sprintf(asks, http.StatusOK)
	before := ann.Number(polls)
	ann.Await(fmt.Sprintf("%s >= %g", polls, before+2)) // the page stays current while the buyer solves it
	if ann.Text(noScroll) != "true" {
		t.Error("the captcha scrolls sideways")
	}
	ann.Screenshot(shot("37-captcha-375-zh"))
	wantAccessible(t, ann, "the captcha")
	provider.wantAsked(t, "before the captcha is solved")
	ann.Click(widgetFrame)
	ann.WaitText(".receipt h2", "请在时限内付款")
	ann.Await(noWidget)
	provider.wantAsked(t, "the captcha is solved after the click", "")

	// Solved before the click, which reserves at once. A reload needs no further captcha.
	bob := open("bob", browsertest.Device{})
	solve(bob)
	bob.Click("#join")
	bob.WaitText(".receipt h2", unpaid)
	bob.Reload()
	bob.WaitText(".receipt h2", unpaid)
	bob.Await(noWidget)
	provider.wantAsked(t, "the captcha is solved before the click", "")

	// The token is spent, as by a request whose response is lost: the widget comes again.
	carol := open("carol", browsertest.Device{})
	solve(carol)
	provider.expire()
	carol.Click("#join")
	carol.WaitText("#note", "Solve the captcha below")
	provider.wantAsked(t, "a spent token", "timeout-or-duplicate")
	carol.Click(widgetFrame)
	carol.WaitText(".receipt h2", unpaid)
	provider.wantAsked(t, "after a spent token", "")

	// The widget reports that its token has expired: it is drawn again, and the token is not sent.
	dave := open("dave", browsertest.Device{})
	solve(dave)
	provider.expire()
	dave.Do("turnstile.expire()")
	dave.Await(`document.querySelector("#captcha iframe").src.includes("id=w2")`)
	dave.Click("#join")
	dave.Click(widgetFrame)
	dave.WaitText(".receipt h2", unpaid)
	provider.wantAsked(t, "after an expired token", "")

	// The click is cancelled before the captcha is solved. The next one sends the token.
	eve := open("eve", browsertest.Device{Width: 375, Height: 740})
	eve.Click("#join")
	eve.WaitText("#note", "Solve the captcha below")
	eve.Click("#uncaptcha")
	eve.Await(`!document.querySelector("#uncaptcha") && document.querySelector("#note").textContent === ""`)
	eve.Await(`document.querySelector("#join").getAttribute("aria-disabled") === null`)
	solve(eve)
	provider.wantAsked(t, "after the click is cancelled")
	eve.Click("#join")
	eve.WaitText(".receipt h2", unpaid)
	provider.wantAsked(t, "the click after that", "")
	wantNoErrors(t, ann, bob, carol, dave, eve)
}

// TestBrowserCaptchaUnavailable checks what a click does if the widget fails: nothing while the
// provider can verify tokens, and work instead if it cannot.
func TestBrowserCaptchaUnavailable(t *testing.T) {
	t.Parallel()
	b := chromium.use(t)
	provider := newCaptchaProvider(t)
	url := captchaShop(t, run.Captcha{SiteKey: "site-key", Secret: captchaSecret, Script: provider.URL + "/api.js", Siteverify: provider.URL + "/siteverify"}, nil)
	p := b.Page(t, "blocked", browsertest.Device{Width: 375, Height: 740})

	provider.set(func() { provider.noScript = true })
	p.Open(url)
	stage(p, "open")
	p.Click("#join")
	p.WaitText("#note", "The captcha did not load.")
	p.Await(noWidget)
	if n := p.Number(`document.body.innerText.split("aptcha").length - 1`); n != 1 {
		t.Errorf("%g texts about the captcha, want one", n)
	}
	provider.wantAsked(t, "only the browser does not reach the provider", "invalid-input-response")
	provider.set(func() { provider.noScript = false })
	p.Click("#join")
	p.WaitText("#note", "Solve the captcha below")
	p.Await(`document.querySelector("#captcha iframe") !== null`)
	p.Do("turnstile.fail()") // the widget does not reach its provider
	p.WaitText("#note", "The captcha did not load.")
	provider.wantAsked(t, "the widget fails", "invalid-input-response")
	p.Click("#join")
	p.Click(widgetFrame)
	p.WaitText(".receipt h2", unpaid)
	provider.wantAsked(t, "the provider works again", "")

	provider.set(func() { provider.noScript, provider.noVerify = true, true })
	p = b.Page(t, "outage", browsertest.Device{Width: 375, Height: 740})
	p.Open(url)
	stage(p, "open")
	p.Click("#join")
	p.WaitText(".receipt h2", unpaid)
	provider.wantAsked(t, "an outage of the provider", "unavailable", "unavailable")
}

// TestBrowserCaptchaHook checks that another widget gives the page its tokens by the hook.
func TestBrowserCaptchaHook(t *testing.T) {
	t.Parallel()
	b := chromium.use(t)
	provider := newCaptchaProvider(t)
	challenge, err := captcha.NewTurnstile(captcha.TurnstileConfig{Secret: captchaSecret, URL: provider.URL + "/siteverify"})
	if err != nil {
		t.Fatal(err)
	}
	url := captchaShop(t, run.Captcha{SiteKey: "own-key", Script: provider.URL + "/hook.js", Origins: []string{provider.URL}}, challenge)
	p := b.Page(t, "hook", browsertest.Device{})
	p.Open(url)
	p.WaitText("#captcha", "puzzle own-key en light function")
	p.Click("#join")
	provider.expire()
	p.Click("#captcha button")
	p.WaitText(".receipt h2", unpaid)
	provider.wantAsked(t, "by the hook", "")
	wantNoErrors(t, p)
}
