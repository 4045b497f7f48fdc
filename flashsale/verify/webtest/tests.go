package webtest

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func (s *suite) session(t *testing.T) {
	b := s.browser()
	a := b.do(t, "POST", "/api/session", "", nil)
	a.want(t, http.StatusCreated, "")
	var c *http.Cookie
	for _, each := range a.cookies {
		if each.Name == "fs_session" {
			c = each
		}
	}
	if c == nil || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.MaxAge < 60 {
		t.Fatalf("the cookie is %v", a.header["Set-Cookie"])
	}
	b.cookie = "fs_session=" + c.Value
	again := b.do(t, "POST", "/api/session", "{}", nil)
	again.want(t, http.StatusOK, "")
	if again.text("user") != a.text("user") || a.text("user") == "" {
		t.Errorf("repeated: user %q, want %q", again.text("user"), a.text("user"))
	}
	// A session with a wrong signature is ignored.
	b.cookie = "fs_session=" + c.Value[:len(c.Value)-2] + "AA"
	other := b.do(t, "POST", "/api/session", "", nil)
	other.want(t, http.StatusCreated, "")
	if other.text("user") == a.text("user") {
		t.Error("a forged session has the user of the original")
	}
	b.sameSite = false
	b.do(t, "POST", "/api/session", "", map[string]string{"Sec-Fetch-Site": "cross-site"}).want(t, http.StatusForbidden, "csrf")
	b.do(t, "POST", "/api/session", "", map[string]string{"Origin": "https://elsewhere.example"}).want(t, http.StatusForbidden, "csrf")
}

func (s *suite) views(t *testing.T, id string) {
	b := s.browser()
	a := b.do(t, "GET", "/api/time", "", nil)
	a.want(t, http.StatusOK, "")
	if at, err := time.Parse("2006-01-02T15:04:05.000Z", a.text("now")); err != nil || time.Since(at).Abs() > time.Minute {
		t.Errorf("the time is %s", a.body)
	}
	a = b.do(t, "GET", "/api/sales", "", nil)
	a.want(t, http.StatusOK, "")
	if all, _ := a.json["sales"].([]any); len(all) < 3 || a.text("now") == "" {
		t.Errorf("the list is %s", a.body)
	}
	a = b.do(t, "GET", "/api/sales/"+id, "", nil)
	a.want(t, http.StatusOK, "")
	for _, name := range []string{"id", "sku", "title", "price", "currency", "stock", "free", "phase", "starts_at", "ends_at", "lobby_ms", "queue", "per_user", "pay_within_ms", "work", "waiting", "now", "poll_after_ms"} {
		if _, ok := a.json[name]; !ok {
			t.Errorf("the view has no %s: %s", name, a.body)
		}
	}
	if a.text("phase") != "upcoming" || a.json["stock"] != 3.0 || a.json["price"] != 1999.0 || a.text("queue") != "fifo" {
		t.Errorf("the view is %s", a.body)
	}
	tag := a.header.Get("ETag")
	if tag == "" {
		t.Error("a view has no ETag")
	}
	if got := b.do(t, "GET", "/api/sales/"+id, "", map[string]string{"If-None-Match": tag}); got.status != http.StatusNotModified || got.body != "" {
		t.Errorf("with its ETag: %d %s, want 304", got.status, got.body)
	}
	b.do(t, "GET", "/api/sales/"+id, "", map[string]string{"If-None-Match": `"other"`}).want(t, http.StatusOK, "")
	if got := b.do(t, "HEAD", "/api/sales/"+id, "", nil); got.status != http.StatusOK || got.body != "" {
		t.Errorf("HEAD: %d %q", got.status, got.body)
	}
	for _, path := range []string{"/api/sales/nosuchsale", "/api/nothing", "/api", "/api/", "/api/sales/" + id + "/nothing", "/api/sales/" + strings.Repeat("a", 65)} {
		b.do(t, "GET", path, "", nil).want(t, http.StatusNotFound, "not_found")
	}
}

func (s *suite) closed(t *testing.T, soon, held, over string) {
	b := s.guest(t)
	for _, c := range []struct {
		sale, reason string
		status       int
		again        bool
	}{
		{soon, "not_started", http.StatusTooEarly, true},
		{held, "paused", http.StatusServiceUnavailable, true},
		{over, "ended", http.StatusGone, false},
	} {
		path := "/api/sales/" + c.sale
		b.awaitStatus(t, path+"/ticket", c.status)
		for _, a := range []response{
			b.do(t, "POST", path+"/ticket", "", nil),
			b.do(t, "GET", path+"/ticket", "", nil),
			b.do(t, "POST", path+"/orders", `{"token":"abc"}`, nil),
			b.do(t, "POST", path+"/orders", `{"token":"abc"}`, map[string]string{"Date": time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}),
		} {
			a.want(t, c.status, c.reason)
			a.wantLayer(t, "L0")
			a.wantRetryAfter(t, c.again)
		}
	}
	a := b.do(t, "GET", "/api/sales/"+soon+"/ticket", "", nil)
	if ms, _ := a.json["retry_after_ms"].(float64); ms < 3_500_000 || ms > 3_610_000 {
		t.Errorf("not started: retry_after_ms %v, want about an hour", a.json["retry_after_ms"])
	}
}

// awaitStatus polls until a path returns the status or the timeout is over.
func (b *browser) awaitStatus(t *testing.T, path string, status int) {
	t.Helper()
	poll(100*time.Millisecond, func() bool { return b.do(t, "GET", path, "", nil).status == status })
}

func (s *suite) strict(t *testing.T, id string) {
	pay := "/api/orders/abc/pay"
	b := s.guest(t)
	for i, c := range []struct{ name, body, field string }{
		{"an unknown field", `{"amount":1}`, "amount"},
		{"a name in another case", `{"Payment":"a"}`, "Payment"},
		{"a field twice", `{"payment":"a","payment":"b"}`, "payment"},
		{"a wrong type", `{"payment":1}`, "payment"},
		{"null", `{"payment":null}`, "payment"},
		{"nested", `{"payment":{"a":1}}`, "payment"},
		{"a number that is not whole", `{"after_ms":1.5}`, "after_ms"},
		{"a number that is too large", `{"after_ms":600001}`, "after_ms"},
		{"a number below zero", `{"after_ms":-1}`, "after_ms"},
		{"a number with a leading zero", `{"after_ms":01}`, "after_ms"},
		{"not JSON", `payment=a`, ""},
		{"a list", `[]`, ""},
		{"trailing data", `{} {}`, ""},
		{"no end", `{"payment":"a`, ""},
		{"not UTF-8", "{\"payment\":\"\xff\"}", ""},
		{"deep", strings.Repeat("[", 10_000), ""},
	} {
		if i%4 == 3 {
			b = s.guest(t)
		}
		a := b.do(t, "POST", pay, c.body, nil)
		if a.want(t, http.StatusBadRequest, "invalid"); c.field != "" && (a.text("field") != c.field || !strings.Contains(a.text("detail"), c.field)) {
			t.Errorf("%s: %s, want the field %s named", c.name, a.body, c.field)
		}
	}
	b = s.guest(t)
	b.do(t, "POST", pay, `{"payment":"`+strings.Repeat("a", 17<<10)+`"}`, nil).want(t, http.StatusRequestEntityTooLarge, "invalid")
	b.do(t, "POST", pay, `{}`, map[string]string{"Content-Type": "text/plain"}).want(t, http.StatusUnsupportedMediaType, "invalid")
	b.do(t, "POST", pay, `{}`, map[string]string{"Content-Type": "application/json; charset=latin1"}).want(t, http.StatusUnsupportedMediaType, "invalid")
	b = s.guest(t)
	for _, c := range []struct{ method, path, allow string }{
		{"DELETE", "/api/sales/" + id + "/ticket", "GET, HEAD, POST"}, {"GET", "/api/session", "POST"}, {"PUT", "/api/orders", "GET, HEAD"},
	} {
		a := b.do(t, c.method, c.path, "", nil)
		a.want(t, http.StatusMethodNotAllowed, "invalid")
		if a.header.Get("Allow") != c.allow {
			t.Errorf("%s: Allow %q, want %q", a.request, a.header.Get("Allow"), c.allow)
		}
	}
}

// paths sends other spellings of a path, which must return 404.
func (s *suite) paths(t *testing.T, id string) {
	for _, path := range []string{
		"//api/sales/" + id, "/api//sales/" + id, "/api/./sales/" + id, "/api/x/../sales/" + id, "/api/sales/" + id + "/",
		"/api/sales%2f" + id, "/api/sales/" + id + ";x=1", "/%61pi/sales/" + id, "/API/sales/" + id, "/api/sales/" + id + "%00",
		"/api/sales/" + id + "%2e", "/api/ſales/" + id, "/api/sales/" + strings.ToUpper(id), "/api\\sales\\" + id, "/api/sales/%ef%bd%81" + id,
	} {
		b := s.browser()
		u, err := url.Parse(s.Shop)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.Shop, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.URL = &url.URL{Scheme: u.Scheme, Host: u.Host, Opaque: "//" + u.Host + path} // as written
		if s.From != nil {
			s.From(r, b.i)
		}
		a := send(t, s.Transport, r)
		if a.status == http.StatusNotFound || a.status == http.StatusBadRequest || s.Rewrites && a.status < 500 {
			continue
		}
		t.Errorf("%q: %d %.100s, want 404", path, a.status, a.body)
	}
}

// trust sends false identities, and requests that another site could make a browser send.
func (s *suite) trust(t *testing.T) {
	b := s.browser()
	for _, c := range []struct{ method, path string }{
		{"GET", "/api/orders"}, {"GET", "/api/orders/abc"}, {"POST", "/api/orders/abc/cancel"}, {"POST", "/api/orders/abc/pay"},
	} {
		for _, fields := range []map[string]string{
			nil,
			{"Flashsale-User": "victim", "X-User-Id": "1", "X-Forwarded-User": "victim", "Authorization": "Bearer victim"},
			{"Cookie": "fs_session=victim"},
			{"Cookie": "fs_session=" + strings.Repeat("A", 2000)},
			{"Cookie": "fs_office=x; FS_SESSION=y"},
		} {
			b.i = int(s.clients.Add(1))
			b.do(t, c.method, c.path, "", fields).want(t, http.StatusUnauthorized, "no_session")
		}
	}
	one, two := s.guest(t), s.guest(t)
	a := one.do(t, "GET", "/api/orders", "", map[string]string{"Cookie": one.cookie + "; " + two.cookie})
	a.want(t, http.StatusUnauthorized, "no_session")
	one.sameSite = false
	for _, fields := range []map[string]string{nil, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": "none"}, {"Flashsale-Request": "0"}} {
		one.do(t, "POST", "/api/orders/abc/cancel", "", fields).want(t, http.StatusForbidden, "csrf")
	}
	two.sameSite = false
	two.do(t, "POST", "/api/orders/abc/cancel", "", map[string]string{"Sec-Fetch-Site": "same-origin"}).want(t, http.StatusNotFound, "not_found")
	two.do(t, "GET", "/api/orders/"+strings.Repeat("A", 200), "", nil).want(t, http.StatusNotFound, "not_found")
	c := s.browser()
	body := fmt.Sprintf(`{"receipt":"abc","payment":"p-1","amount":%d}`, 1999)
	for _, path := range []string{"/api/payments/callback", "/api/payments/notify/default"} {
		c.do(t, "POST", path, body, map[string]string{"Flashsale-Signature": strings.Repeat("0", 64)}).want(t, http.StatusNotFound, "not_found")
	}
}

func (s *suite) limits(t *testing.T, id string) {
	b := s.browser()
	layers := map[string]int{}
	for range 60 {
		a := b.once(t, "GET", "/api/time", "", nil)
		layers[fmt.Sprint(a.status, a.header.Get("Flashsale-Layer"))]++
		if a.status == http.StatusTooManyRequests && a.header.Get("Retry-After") == "" {
			t.Errorf("429 without Retry-After: %v", a.header)
		}
	}
	if layers["200"] < 40 || layers["429L1"] == 0 || layers["200"]+layers["429L1"] != 60 {
		t.Errorf("60 requests of one address: %v, want 40 and a few accepted, and the rest 429 from L1", layers)
	}
	g := s.guest(t)
	layers = map[string]int{}
	for i := range 12 {
		if s.From != nil {
			g.i = int(s.clients.Add(1)) // below the limit of each address
		}
		path := []string{"/api/orders/r", "/api/orders", "/api/sales/" + id + "/orders"}[i%3]
		a := g.once(t, "GET", path, "", map[string]string{"Flashsale-User": fmt.Sprint("other", i)})
		if a.status < http.StatusInternalServerError && a.status != http.StatusTooManyRequests {
			layers["accepted"]++
		}
		layers[fmt.Sprint(a.status, a.header.Get("Flashsale-Layer"))]++
	}
	if s.From != nil && (layers["accepted"] < 4 || layers["accepted"] > 8 || layers["429L2"] != 12-layers["accepted"]) {
		t.Errorf("12 requests of one user: %v, want about 5 accepted, and the rest 429 from L2", layers)
	}
	// Pages that are equal for all users do not count against the limit per user.
	for i := range 12 {
		if s.From != nil {
			g.i = int(s.clients.Add(1))
		}
		path := []string{"/api/sales/" + id, "/api/time", "/api/sales"}[i%3]
		if a := g.once(t, "GET", path, "", nil); s.From != nil && a.status != http.StatusOK {
			t.Errorf("%s of a user at its limit: %d %s", path, a.status, a.body)
		}
	}
}
