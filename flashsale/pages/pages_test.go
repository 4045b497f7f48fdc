package pages_test

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/floodweir/weir/flashsale/pages"
)

// get asks h for a path with the fields of a request.
func get(t *testing.T, h http.Handler, method, path string, fields map[string]string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	for name, value := range fields {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Result(), string(body)
}

func sites() map[string]http.Handler {
	return map[string]http.Handler{"shop": pages.NewShop(pages.Config{}), "office": pages.NewOffice(pages.Config{})}
}

func TestPages(t *testing.T) {
	for _, test := range []struct {
		site, method, path string
		status             int
	}{
		{"shop", "GET", "/", 200},
		{"shop", "HEAD", "/", 200},
		{"shop", "GET", "/sales/abc123", 200},
		{"shop", "GET", "/orders", 200},
		{"shop", "GET", "/c/double-11", 200},
		{"shop", "GET", "/c/", 404},
		{"shop", "GET", "/c/Double", 404},
		{"shop", "GET", "/c/-a", 404},
		{"shop", "GET", "/c/a/b", 404},
		{"shop", "GET", "/c/" + strings.Repeat("a", 41), 404},
		{"office", "GET", "/c/double-11", 404},
		{"shop", "GET", "/sales/", 404},
		{"shop", "GET", "/sales/ABC", 404},
		{"shop", "GET", "/sales/a%2Fb", 404},
		{"shop", "GET", "/sales/%3Cscript%3E", 404},
		{"shop", "GET", "/sales/a%00", 404},
		{"shop", "GET", "/sales/" + strings.Repeat("a", 65), 404},
		{"shop", "GET", "/sales/abc/more", 404},
		{"shop", "GET", "/static/0000000000000000/style.css", 404},
		{"shop", "GET", "/static/", 404},
		{"shop", "GET", "/favicon.ico", 404},
		{"shop", "POST", "/", 405},
		{"shop", "DELETE", "/orders", 405},
		{"office", "GET", "/", 200},
		{"office", "GET", "/sales/new", 200},
		{"office", "GET", "/sales/abc123", 200},
		{"office", "GET", "/lab", 404},
		{"office", "GET", "/orders", 404},
		{"office", "HEAD", "/orders", 404},
	} {
		r, body := get(t, sites()[test.site], test.method, test.path, nil)
		if r.StatusCode != test.status {
			t.Errorf("%s: %s %s = %d, want %d", test.site, test.method, test.path, r.StatusCode, test.status)
		}
		if strings.Contains(body, "<script>") {
			t.Errorf("%s: %s %s repeats what was asked", test.site, test.method, test.path)
		}
		if test.method == "HEAD" && body != "" {
			t.Errorf("%s: HEAD %s has a body", test.site, test.path)
		}
	}
}

// A page is asked about each time, its files never again, and neither needs a script or a
// style in a text.
func TestPolicyAndCaches(t *testing.T) {
	files := regexp.MustCompile(`(?:src|href)="(/static/[^"]+)"`)
	inline := regexp.MustCompile(`(?i)<script>|<style|\sstyle=|\son[a-z]+=|"javascript:|https?://`)
	for name, site := range sites() {
		r, body := get(t, site, "GET", "/", nil)
		for field, want := range map[string]string{
			"Cache-Control": "no-cache", "Content-Security-Policy": pages.Policy, "X-Content-Type-Options": "nosniff",
			"Content-Type": "text/html; charset=utf-8", "Vary": "Accept-Language, Cookie", "Content-Language": "en",
		} {
			if got := r.Header.Get(field); got != want {
				t.Errorf("%s: %s %q, want %q", name, field, got, want)
			}
		}
		if found := inline.FindString(body); found != "" {
			t.Errorf("%s: the page has %q in its text", name, found)
		}
		tag := r.Header.Get("ETag")
		if r, body := get(t, site, "GET", "/", map[string]string{"If-None-Match": tag}); r.StatusCode != 304 || body != "" {
			t.Errorf("%s: again with %s = %d and %d bytes, want 304", name, tag, r.StatusCode, len(body))
		}
		if r, _ := get(t, site, "GET", "/?lang=zh", map[string]string{"If-None-Match": tag}); r.StatusCode != 200 {
			t.Errorf("%s: in another language with %s = %d, want 200", name, tag, r.StatusCode)
		}
		found := files.FindAllStringSubmatch(body, -1)
		if len(found) < 5 {
			t.Errorf("%s: %d files, want style, icon and scripts\n%s", name, len(found), body)
		}
		for _, f := range found {
			r, body := get(t, site, "GET", f[1], nil)
			if r.StatusCode != 200 || r.Header.Get("Cache-Control") != "public, max-age=31536000, immutable" || r.Header.Get("ETag") == "" || body == "" {
				t.Errorf("%s: %s = %d %v", name, f[1], r.StatusCode, r.Header)
			}
			if r, _ := get(t, site, "GET", f[1], map[string]string{"If-None-Match": r.Header.Get("ETag")}); r.StatusCode != 304 {
				t.Errorf("%s: %s again = %d, want 304", name, f[1], r.StatusCode)
			}
		}
	}
}

// The listener forbids everything to its answers; the pages say what they need instead.
func TestPolicyReplaces(t *testing.T) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Security-Policy", "default-src 'none'")
	pages.NewShop(pages.Config{}).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if got := w.Header().Values("Content-Security-Policy"); len(got) != 1 || got[0] != pages.Policy {
		t.Errorf("policy %q", got)
	}
}

func TestLanguage(t *testing.T) {
	for _, test := range []struct{ query, cookie, accept, fallback, want string }{
		{"", "", "", "", "en"},
		{"", "", "", "zh", "zh"},
		{"", "", "zh-CN,zh;q=0.9,en;q=0.8", "", "zh"},
		{"", "", "en-GB,zh;q=0.9", "zh", "en"},
		{"", "", "de, zh;q=0.5, en;q=0.4", "", "zh"},
		{"", "", "en;q=0, zh;q=0.1", "", "zh"},
		{"", "", "EN;q=0.2,ZH-hant;Q=0.7", "", "zh"},
		{"", "", "zh;q=2, zh;q=NaN, zh;q=-1, zh;q=+Inf, zh;q=x", "", "en"},
		{"", "", strings.Repeat("de,", 15) + "zh", "", "zh"},
		{"", "", strings.Repeat("de,", 100_000) + "zh", "", "en"},
		{"", "", ";;;,,,=\x00", "zh", "zh"},
		{"?lang=zh", "en", "en", "", "zh"},
		{"?lang=en", "zh", "zh", "zh", "en"},
		{"?lang=<x>", "zh", "en", "", "zh"},
		{"?lang=de", "de", "en", "zh", "en"},
	} {
		fields := map[string]string{"Accept-Language": test.accept}
		if test.cookie != "" {
			fields["Cookie"] = "fs_lang=" + test.cookie
		}
		r, body := get(t, pages.NewShop(pages.Config{Lang: test.fallback}), "GET", "/"+test.query, fields)
		html := map[string]string{"en": `<html lang="en"`, "zh": `<html lang="zh-CN"`}[test.want]
		if got := r.Header.Get("Content-Language"); got != test.want || !strings.Contains(body, html) {
			t.Errorf("%+.60v: language %s, want %s", test, got, test.want)
		}
		asked := strings.TrimPrefix(test.query, "?lang=")
		if set := r.Header.Get("Set-Cookie"); (set != "") != (asked == "en" || asked == "zh") {
			t.Errorf("%+.60v: cookie %q, want one only of a language that was asked for", test, set)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("Lang de was accepted")
		}
	}()
	pages.NewShop(pages.Config{Lang: "de"})
}

// The files of one site are not on the other, and change their address together.
func TestStaticOfEachSite(t *testing.T) {
	prefix := map[string]string{}
	for name, site := range sites() {
		_, body := get(t, site, "GET", "/", nil)
		prefix[name] = regexp.MustCompile(`/static/[0-9a-f]{16}/`).FindString(body)
	}
	if prefix["shop"] == "" || prefix["shop"] == prefix["office"] {
		t.Fatalf("addresses %v", prefix)
	}
	for path, want := range maps.All(map[string]int{"sale.js": 200, "board.js": 404, "text-zh.js": 200, "text-de.js": 404, "..%2fcommon%2fstyle.css": 404}) {
		if r, _ := get(t, sites()["shop"], "GET", prefix["shop"]+path, nil); r.StatusCode != want {
			t.Errorf("%s = %d, want %d", path, r.StatusCode, want)
		}
	}
}

// TestCaptcha checks that only the page of a sale names the widget, and allows its origins.
func TestCaptcha(t *testing.T) {
	const captcha = `data-captcha="https://captcha.example/api.js?a=1&amp;b=2" data-sitekey="key&#34;"`
	for _, c := range []struct {
		captcha  pages.Captcha
		policies []string // parts of the policy
	}{
		{pages.Captcha{Script: "https://captcha.example/api.js?a=1&b=2", SiteKey: `key"`}, []string{
			"script-src 'self' https://captcha.example; style-src 'self'; img-src 'self'; connect-src 'self'; ", "; frame-src https://captcha.example"}},
		{pages.Captcha{Script: "https://captcha.example/api.js?a=1&b=2", SiteKey: `key"`, Origins: []string{"https://*.example", "https://b.example:444"}}, []string{
			"script-src 'self' https://captcha.example https://*.example https://b.example:444; style-src 'self' https://*.example https://b.example:444; ",
			"; frame-src https://captcha.example https://*.example https://b.example:444"}},
	} {
		shop := pages.NewShop(pages.Config{Captcha: c.captcha})
		r, body := get(t, shop, "GET", "/sales/abc", nil)
		policy := r.Header.Get("Content-Security-Policy")
		for _, want := range c.policies {
			if !strings.Contains(policy, want) {
				t.Errorf("%+v: policy %s, want %s in it", c.captcha, policy, want)
			}
		}
		if !strings.Contains(body, captcha) {
			t.Errorf("%+v: the page lacks %s: %.200s", c.captcha, captcha, body)
		}
		for _, path := range []string{"/", "/orders", "/c/abc", "/sales/ABC"} {
			r, body := get(t, shop, "GET", path, nil)
			if got := r.Header.Get("Content-Security-Policy"); got != pages.Policy || strings.Contains(body, "captcha") {
				t.Errorf("%s: policy %s and page %.200s, want no captcha", path, got, body)
			}
		}
	}
	if r, _ := get(t, pages.NewShop(pages.Config{Captcha: pages.Captcha{Script: "/own.js"}}), "GET", "/sales/abc", nil); r.Header.Get("Content-Security-Policy") != pages.Policy {
		t.Errorf("a script of the same host: policy %s", r.Header.Get("Content-Security-Policy"))
	}
	for _, c := range []struct {
		captcha pages.Captcha
		want    string
	}{
		{pages.Captcha{Script: "captcha.js"}, `captcha script "captcha.js": want https://HOST/PATH or /PATH`},
		{pages.Captcha{Script: "//a.example/x"}, `captcha script "//a.example/x": want`},
		{pages.Captcha{Script: "javascript:x"}, "captcha script"},
		{pages.Captcha{Script: "https://a.example;b/x"}, "captcha script"},
		{pages.Captcha{Script: "https://user@a.example/x"}, "captcha script"},
		{pages.Captcha{Script: "/x", Origins: []string{"https://a.example/path"}}, `captcha origin "https://a.example/path": want https://HOST`},
		{pages.Captcha{Script: "/x", Origins: []string{"'unsafe-inline'"}}, "captcha origin"},
		{pages.Captcha{Origins: []string{"https://a.example"}}, `captcha origins ["https://a.example"]: want a script too`},
	} {
		if err := c.captcha.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.captcha, err, c.want)
		}
	}
}
