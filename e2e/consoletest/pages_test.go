package consoletest_test

import (
	"testing"

	"github.com/floodweir/weir/e2e/browsertest"
	"github.com/floodweir/weir/e2e/consoletest"
)

// testPages opens every page in both languages, themes and widths, all in one window, because a
// new one is slow.
func (s *suite) testPages(t *testing.T) {
	looks := []browsertest.Device{{Width: 1280, Lang: "en"}, {Width: 375, Lang: "zh-CN", Dark: true}}
	_, p := s.open(t, "overview", consoletest.Options{StaleNode: true}, looks[0])
	for _, page := range []struct{ path, selector, en, zh string }{
		{"overview", "tbody", "login", "login"},
		{"policies", "tbody", "partner-export", "partner-export"},
		{"policy?name=login", "h2", "Top denied keys", "被拒 Top Key"},
		{"key", "main", "Shows why a client is denied", "查看客户端为何被拒"},
		{"try", "main", "The decision that a request would get", "查看一个请求会得到的判定结果"},
		{"functions", "tbody", "shop ×3", "shop ×3"},
		{"edit", "#validity", "Valid", "校验通过"},
		{"edit?view=versions", "tbody", "in force", "生效中"},
		{"audit", "tbody", "scraper", "scraper"},
		{"sign-in", "main", "The token is in the file", "令牌在"},
	} {
		for i, look := range looks {
			t.Logf("%s, %d pixels, %s", page.path, look.Width, look.Lang)
			p.Emulate(look)
			text := page.en
			if i == 0 {
				p.Open(p.Text("location.origin") + "/console/" + page.path)
			} else {
				text = page.zh
				p.Reload()
			}
			p.WaitText(page.selector, text)
			if got := p.Text("document.documentElement.lang"); got != look.Lang {
				t.Errorf("%s: html lang %s, want %s", page.path, got, look.Lang)
			}
			fits(t, p)
			accessible(t, p)
		}
		ownHost(t, page.path, p)
	}
}

func (s *suite) testStates(t *testing.T) {
	wide := browsertest.Device{}
	t.Run("stale node", func(t *testing.T) {
		_, p := s.open(t, "overview", consoletest.Options{StaleNode: true}, wide)
		p.WaitText(".banner", "3 of 4 nodes report")
		p.WaitText("tr.flag", "stale, 12 s")
		p.WaitText("tr.flag", "gw-2")
		p.WaitText("tr.flag", "local")
		// What has a problem comes first.
		p.WaitText("section:has(td) tbody tr:first-child", "gw-2")
	})
	t.Run("store down", func(t *testing.T) {
		fake, p := s.open(t, "overview", consoletest.Options{StoreDown: true}, wide)
		p.WaitText(".banner.bad", "The store is unavailable")
		p.Open(p.Text("location.origin") + "/console/key?policy=login")
		p.WaitText(".banner.bad", "Actions are disabled")
		p.Fill("input[data-search]", "203.0.113.9")
		p.Click("form button.primary")
		p.Await(`document.querySelectorAll("section .actions button").length === 5`)
		p.Await(`[...document.querySelectorAll("section .actions button")].every((b) => b.disabled)`)
		p.Open(p.Text("location.origin") + "/console/edit?policy=login&limits=12/m")
		p.WaitText("main", "The store is unavailable.")
		p.Await(`document.querySelector("button.primary").disabled`)
		if len(fake.Changes()) != 0 {
			t.Errorf("changes %q while the store is down", fake.Changes())
		}
	})
	t.Run("role read", func(t *testing.T) {
		fake, p := s.open(t, "policy?name=login", consoletest.Options{Role: "read"}, wide)
		p.Await(`document.querySelector("td, tbody th")?.textContent && document.querySelectorAll(".mono").length > 5`)
		p.Await(`[...document.querySelectorAll("tbody .mono")].every((e) => e.textContent.startsWith("#"))`)
		p.WaitText(".estimate", "Would deny")
		p.Click(".columns section:first-child tbody tr:first-child a")
		p.WaitText(".verdict", "Denied by login")
		p.Await(`[...document.querySelectorAll("section .actions button")].every((b) => b.disabled)`)
		p.WaitText("section", "Your role only reads.")
		if p.Text("document.body.textContent.includes('203.0.113.9')") == "true" {
			t.Error("the role read sees a key")
		}
		if len(fake.Changes()) != 0 {
			t.Errorf("changes %q by the role read", fake.Changes())
		}
		p.Open(p.Text("location.origin") + "/console/key")
		p.WaitText("main", "Entering one needs the role operate.")
		p.Await(`document.querySelector("main form") === null`)
		p.Open(p.Text("location.origin") + "/console/audit")
		p.WaitText("tbody", "ticket 812")
		p.Await(`[...document.querySelectorAll("tbody .mono")].length > 2 && [...document.querySelectorAll("tbody .mono")].every((e) => e.textContent.startsWith("#"))`)
		p.Await(`[...document.querySelectorAll("tbody tr")].filter((r) => r.textContent.includes("result unknown")).map((r) => r.textContent.includes("ticket 813")).join() === "true"`)
		p.Open(p.Text("location.origin") + "/console/edit")
		p.WaitText(".note", "Your role only reads.")
	})
	t.Run("empty", func(t *testing.T) {
		_, p := s.open(t, "overview", consoletest.Options{Empty: true}, wide)
		p.WaitText(".note", "curl")
		p.WaitText(".empty", "No policies in force")
		for path, text := range map[string]string{"policies": "No policies in force", "functions": "//weir:limit", "audit": "No entries match"} {
			p.Open(p.Text("location.origin") + "/console/" + path)
			p.WaitText("main", text)
		}
		p.Open(p.Text("location.origin") + "/console/policy?name=nothing")
		p.WaitText(".fault", "There is no policy nothing in force.")
	})
	t.Run("quiet", func(t *testing.T) {
		_, p := s.open(t, "policy?name=login", consoletest.Options{Quiet: true}, wide)
		p.WaitText(".estimate", "Not enough traffic (31 keys in 10 min, want 50)")
	})
	t.Run("64 policies", func(t *testing.T) {
		_, p := s.open(t, "policies", consoletest.Options{Policies: 64}, wide)
		p.Await(`document.querySelectorAll("tbody tr").length === 64`)
		p.Fill("input[type=search]", "route-4")
		p.Await(`document.querySelectorAll("tbody tr").length === 10`)
		p.Await(`location.search.includes("q=route-4")`)
		p.Click("thead th:first-child button")
		p.Await(`document.querySelector("tbody tr").textContent.startsWith("route-40")`)
		p.Reload()
		p.Await(`document.querySelector("tbody tr")?.textContent.startsWith("route-40")`)
	})
	t.Run("hostile texts", func(t *testing.T) {
		fake, p := s.open(t, "policy?name=login", consoletest.Options{Hostile: true}, browsertest.Device{Width: 375})
		p.Do(`window.alert = () => { window.attacked = true; }`)
		p.WaitText("tbody", `<script>alert("x")</script>`)
		fits(t, p)
		p.WaitText(".estimate", "Would deny")
		p.Click(".columns section:first-child tbody tr:first-child a")
		p.WaitText(".verdict", `<script>alert("x")</script>`)
		if p.Text(`/script|alert/.test(decodeURIComponent(location.href))`) == "true" {
			t.Errorf("the address contains the key: %s", p.Text("location.href"))
		}
		fits(t, p)
		for _, path := range []string{"overview", "policies", "functions", "audit"} {
			p.Open(p.Text("location.origin") + "/console/" + path)
			p.WaitText("main", "<script>")
			fits(t, p)
		}
		if p.Text(`Boolean(window.attacked) || document.querySelectorAll("main script").length > 0`) == "true" {
			t.Error("a text became markup")
		}
		if len(fake.Changes()) != 0 {
			t.Errorf("changes %q", fake.Changes())
		}
	})
}

// testStream pauses and continues the events, and survives a server that is away.
func (s *suite) testStream(t *testing.T) {
	fake, p := s.open(t, "overview", consoletest.Options{Policies: 64}, browsertest.Device{})
	p.WaitText(".tools .live", "Live")
	p.Await(`document.querySelectorAll("main .plot canvas").length === 2`) // drawn after the stream has begun
	chart := `document.querySelector(".plot canvas").toDataURL()`
	p.Do("window.before = " + chart)
	p.Await("window.before !== " + chart) // the chart moves
	p.Click(".tools .live")
	p.WaitText(".tools .live", "Paused")
	p.Key("Escape")
	p.Do(`document.activeElement.blur()`)
	p.Key("Space")
	p.WaitText(".tools .live", "Live")
	fake.SetOffline(true)
	p.Await(`/Reconnecting, data from \d\d:\d\d:\d\d/.test(document.querySelector(".tools .live").textContent)`)
	fake.SetOffline(false)
	p.WaitText(".tools .live", "Live")
	// A chart has a table of the same numbers.
	p.Click("figcaption button")
	p.Await(`document.querySelectorAll(".chart .scroll tbody tr").length > 50`)
	fake.Publish("mei", "note", "policies: []\n")
	p.WaitText(".version", "v43")
}

func (s *suite) testLanguageAndTheme(t *testing.T) {
	_, p := s.open(t, "overview", consoletest.Options{}, browsertest.Device{})
	p.WaitText("h1", "Overview")
	p.Click("button[lang=zh-CN]")
	p.WaitText("h1", "概览")
	p.Reload()
	p.WaitText("h1", "概览") // remembered
	paper := func() string { return p.Text("getComputedStyle(document.documentElement).backgroundColor") }
	light := paper()
	p.Click("button[title=切换主题]")
	p.Click("button[title=切换主题]")
	p.WaitText(".tools", "深色")
	if paper() == light {
		t.Errorf("dark theme has the background %s of the light one", light)
	}
	p.Reload()
	p.WaitText(".tools", "深色")
	if paper() == light {
		t.Error("the theme is not remembered")
	}
}
