package consoletest_test

import (
	"strings"
	"testing"

	"github.com/floodweir/weir/e2e/browsertest"
	"github.com/floodweir/weir/e2e/consoletest"
)

func (s *suite) testKey(t *testing.T) {
	fake, p := s.open(t, "key?policy=login", consoletest.Options{}, browsertest.Device{})
	p.WaitText("form", "Key: client.ip")
	p.Fill("input[data-search]", "203.0.113.9")
	p.Click("form button.primary")
	p.WaitText(".verdict.bad", "Denied by login (5/m). Next request succeeds in")
	if address := p.Text("location.href"); strings.Contains(address, "203.0.113") {
		t.Errorf("the address %s contains the key", address)
	}
	for i, action := range []struct{ path, fill, value, verdict, before string }{
		{"freeze", "", "", "frozen until lifted", "5/m: 0 of 5"},
		{"lift", "", "", "Denied by login", "frozen"},
		{"block", "input[type=number]", "30", "blocked until", "5/m: 0 of 5"},
		{"lift", "", "", "Denied by login", "blocked"},
		{"raise", "input[type=text]", "30/m", "Admitted now.", "5/m: 0 of 5"},
		{"lift", "", "", "Denied by login", "raised limit 30/m"},
		{"credit", "input[type=number]", "5", "Admitted now.", "5/m: 0 of 5"},
		{"reset", "", "", "Admitted now.", "5/m: 5 of 5"},
	} {
		selector := map[string]string{"credit": button("section .actions", 1), "reset": button("section .actions", 2), "raise": button("section .actions", 3),
			"freeze": button("section .actions", 4), "block": button("section .actions", 5), "lift": "section p button"}[action.path]
		p.Click(selector)
		p.WaitText("dialog", "Before")
		p.WaitText("dialog tr:first-child", action.before)
		if i == 0 {
			accessible(t, p)
		}
		if action.fill != "" {
			p.Fill("dialog "+action.fill, action.value)
		}
		p.Await(`document.querySelector("dialog button.primary").disabled`) // no reason yet
		p.Fill("dialog input[name=reason]", "ticket 812")
		p.Click("dialog button.primary")
		p.WaitText(".done", "The change is in the audit log.")
		p.WaitText(".verdict", action.verdict)
		if c := fake.Changes(); len(c) != i+1 || c[i] != "POST /v1/key/"+action.path {
			t.Fatalf("changes %q, want %s last", c, action.path)
		}
	}
	p.Open(p.Text("location.origin") + "/console/audit?action=raise")
	p.Await(`document.querySelectorAll("tbody tr").length === 2`)
	p.WaitText("tbody tr:first-child", "ticket 812")
	p.WaitText("tbody tr:last-child", "raised limit 30/m, 600/h 1 h")
	p.Open(p.Text("location.origin") + "/console/audit?actor=mei&action=lift")
	p.WaitText("tbody tr:last-child", "raised limit 30/m, 600/h until ")
	p.WaitText("tbody tr:last-child", "→ lifted")
	p.Click(`nav a[href="key"]`)
	live(p, "key")
}

func (s *suite) testTry(t *testing.T) {
	fake, p := s.open(t, "try", consoletest.Options{}, browsertest.Device{})
	p.Fill(".form label:nth-of-type(2) input", "/login")
	p.Fill(".form label:nth-of-type(3) input", "203.0.113.9")
	p.Click("button.primary")
	p.WaitText(".verdict.bad", "Denied by login: 429 Retry after 42 s. Nothing was consumed.")
	p.WaitText("tbody", "method: got GET, want POST")
	accessible(t, p)
	p.Open(p.Text("location.origin") + "/console/edit?policy=login&limits=12/m")
	p.WaitText(".diff .add", "limits: [12/m]") // begins a draft
	p.Open(p.Text("location.origin") + "/console/try")
	p.WaitText("label.check", "starts from v42")
	p.Fill(".form label:nth-of-type(2) input", "/login")
	p.Fill(".form label:nth-of-type(3) input", "203.0.113.9")
	p.Click("button.primary")
	p.WaitText("section[aria-label='Policies in force'] .verdict.bad", "Denied by login: 429")
	p.WaitText("section[aria-label=Draft] .verdict.ok", "Admitted")
	p.WaitText("section[aria-label=Draft] tbody", "12/m")
	accessible(t, p)
	p.Click("label.check input")
	p.Click("button.primary")
	p.WaitText(".verdict.bad", "Denied by login: 429")
	p.Await(`!document.querySelector("section[aria-label=Draft]")`)
	p.Fill(".form label:nth-of-type(2) input", "no path")
	p.Click("button.primary")
	p.WaitText(".fault", "url: got no path, want a path or a URL")
	if len(fake.Changes()) != 0 {
		t.Errorf("changes %q by Try", fake.Changes())
	}
}

const yaml = ".yaml textarea"

func (s *suite) testEdit(t *testing.T) {
	wide := browsertest.Device{}
	t.Run("invalid", func(t *testing.T) {
		fake, p := s.open(t, "edit", consoletest.Options{}, wide)
		p.WaitText("#validity", "Valid")
		p.Do(`document.querySelector("` + yaml + `").focus()`)
		p.Fill(yaml, strings.Replace(p.Text(`document.querySelector("`+yaml+`").value`), "[5/m]", "[10/]", 1))
		p.WaitText("#validity", `8:14 limits: got "10/", want COUNT/PERIOD`)
		p.WaitText(".gutter .bad", "! 8")
		p.Await(`document.querySelector("button.primary").disabled`)
		p.Key("Ctrl+Enter")
		p.Await(`!document.querySelector("dialog")`)
		accessible(t, p)
		p.Reload()
		p.WaitText("#validity", `want COUNT/PERIOD`) // the draft is kept
		if len(fake.Changes()) != 0 {
			t.Errorf("changes %q, want none", fake.Changes())
		}
	})
	t.Run("apply and roll back", func(t *testing.T) {
		fake, p := s.open(t, "policy?name=login", consoletest.Options{}, wide)
		live(p, "policy")
		p.Fill(".slider label:nth-of-type(1) input", "12")
		p.WaitText(".estimate", "Would deny 42–46 keys")
		p.Click(".slider a.button")
		live(p, "edit")
		p.WaitText(".diff .add", "limits: [12/m]")
		p.WaitText(".diff .del", "limits: [5/m]")
		p.Await(`document.querySelector("` + yaml + `").value.includes("# brute force")`)
		p.Await(`document.querySelector("input[name=limits]").value === "12/m"`)
		release := fake.HoldEdits() // an operator goes on while the server edits
		p.Fill("input[name=percent]", "50")
		p.Fill("input[name=key]", "client.ip, header:x-tenant")
		p.Fill("input[name=match]", "/login")
		p.Click("button.primary")
		release()
		p.WaitText("dialog", "now 61 keys denied, then 42–46; 1,302–1,512 requests")
		for _, line := range []string{"percent: 50\n", "key: [client.ip, header:x-tenant]\n", "match: /login\n"} {
			if text := p.Text(`document.querySelector("` + yaml + `").value`); !strings.Contains(text, line) {
				t.Errorf("the draft has no line %q:\n%s", line, text)
			}
		}
		accessible(t, p)
		p.Await(`document.querySelector("dialog button.primary").disabled`)
		p.Fill("dialog input[name=reason]", "fewer false positives")
		p.Click("dialog button.primary")
		p.WaitText(".done", "v43: ")
		p.WaitText(".facts", "v43")
		p.Click(".version")
		p.WaitText("tbody tr:first-child", "fewer false positives")
		p.Click("tbody tr:nth-child(2) button")
		p.WaitText("dialog h2", "Roll back to v42")
		p.Await(`document.querySelectorAll("dialog .diff .del, dialog .diff .add").length > 1`)
		p.Fill("dialog input[name=reason]", "wrong limit")
		p.Click("dialog button.primary")
		p.WaitText(".done", "Rolled back to v42, published as v44.")
		if c := strings.Join(fake.Changes(), " "); c != "POST /v1/apply POST /v1/rollback" {
			t.Errorf("changes %s", c)
		}
	})
	t.Run("conflict", func(t *testing.T) {
		fake, p := s.open(t, "edit?policy=login&limits=12/m", consoletest.Options{Conflict: true}, wide)
		p.WaitText("#validity", "Valid")
		p.Click("button.primary")
		p.Fill("dialog input[name=reason]", "fewer false positives")
		p.Click("dialog button.primary")
		p.WaitText("dialog h2", "v43 was published meanwhile")
		p.Await(`document.querySelectorAll("dialog .three pre").length === 3`)
		for i, text := range []string{"[5/m]", "[4/s burst 8]", "[12/m]"} {
			p.WaitText("dialog .three div:nth-child("+string(rune('1'+i))+")", text)
		}
		accessible(t, p)
		p.Click("dialog .actions button")
		p.WaitText(".diff .del", "[4/s burst 8]") // the draft would undo the other change: the diff says so
		if !contains(fake.Changes(), "POST /v1/apply") {
			t.Errorf("changes %q", fake.Changes())
		}
	})
}

func (s *suite) testSignIn(t *testing.T) {
	_, p := s.open(t, "policies?q=login", consoletest.Options{Token: "correct horse battery"}, browsertest.Device{})
	p.WaitText("h1", "Sign in")
	p.Fill("input[type=password]", "wrong")
	p.Click("button.primary")
	p.WaitText(".fault", "The token was refused.")
	p.Fill("input[type=password]", "correct horse battery")
	p.Click("button.primary")
	p.Await(`document.querySelectorAll("tbody tr").length === 1 && location.search === "?q=login"`) // the page that was asked for
	p.WaitText(".tools", "ops · operate")
	p.Click(".tools button:last-of-type")
	p.WaitText("h1", "Sign in")
	p.Open(p.Text("location.origin") + "/console/sign-in?next=%2F%2Fexample.org%2F")
	p.Fill("input[type=password]", "correct horse battery")
	p.Click("button.primary")
	p.Await(`location.pathname === "/console/overview"`) // never another host
}

// testKeyboard uses no mouse.
func (s *suite) testKeyboard(t *testing.T) {
	fake, p := s.open(t, "overview", consoletest.Options{}, browsertest.Device{})
	p.WaitText("tbody", "login")
	p.Key("?")
	p.WaitText("dialog", "Keyboard shortcuts")
	p.Key("Escape")
	p.Await(`!document.querySelector("dialog")`)
	for _, page := range []struct{ key, path string }{{"k", "key"}, {"t", "try"}, {"f", "functions"}, {"e", "edit"}, {"a", "audit"}, {"o", "overview"}, {"p", "policies"}} {
		p.Key("g")
		p.Key(page.key)
		live(p, page.path)
	}
	p.Await(`document.querySelector("[data-search]")`)
	p.Key("/")
	p.Await(`document.activeElement.matches("input[type=search]")`)
	p.Fill("input[type=search]", "login") // the browser's debugger types the / although the page refuses it
	p.Key("g")                            // a character in an input is text
	p.Key("p")
	p.Await(`location.pathname === "/console/policies"`)
	if got := p.Text("document.activeElement.value"); got != "logingp" {
		t.Errorf("the input has %q, want logingp", got)
	}
	p.Fill("input[type=search]", "login")
	p.TabTo(`tbody a`)
	p.Key("Enter")
	p.WaitText("h1", "login")
	p.TabTo("input[type=range]")
	p.Key("ArrowRight")
	p.Await(`document.querySelector("input[type=range]").getAttribute("aria-valuetext") === "6/m"`)
	p.Key("PageUp")
	p.Await(`document.querySelector("input[type=range]").getAttribute("aria-valuetext") === "19/m"`)
	p.Await(`location.search.includes("threshold=19%2Fm")`)
	p.TabTo(`.slider a.button`)
	p.Key("Enter")
	p.WaitText(".diff .add", "[19/m]")
	p.Await(`!document.querySelector("[aria-keyshortcuts='Control+Enter']").disabled`)
	p.Key("Ctrl+Enter")
	p.WaitText("dialog", "Draft against v42")
	p.Await(`document.activeElement.matches("dialog input[name=reason]")`)
	p.Type("chosen from ten minutes of traffic")
	p.Key("Enter")
	p.WaitText(".done", "v43: ")
	if c := fake.Changes(); len(c) != 1 {
		t.Errorf("changes %q, want one apply", c)
	}
}
