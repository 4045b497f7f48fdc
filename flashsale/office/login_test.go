package office_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/account"
	"github.com/floodweir/weir/flashsale/office"
	"github.com/floodweir/weir/flashsale/verify/webtest"
)

func (o *premises) login(addr, name, password string, change ...func(r *http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/api/login", strings.NewReader(fmt.Sprintf(`{"name":%q,"password":%q}`, name, password)))
	r.Header.Set("Content-Type", "application/json")
	r.RemoteAddr = addr
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	o.ServeHTTP(w, r)
	return w
}

func TestLogin(t *testing.T) {
	o := openOffice(t, nil)
	w := o.login("192.0.2.1:1", "ann", password)
	cookies := w.Result().Cookies()
	if w.Code != 200 || len(cookies) != 1 || !strings.Contains(w.Body.String(), `"name":"ann","csrf":"`) {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	c := cookies[0]
	if c.Name != "fs_office" || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure || c.Path != "/" {
		t.Errorf("the cookie is %v", c)
	}
	r := httptest.NewRequest("GET", "/api/me", nil)
	r.AddCookie(c)
	me := httptest.NewRecorder()
	if o.ServeHTTP(me, r); me.Code != 200 || me.Body.String() != w.Body.String() {
		t.Errorf("me: %d %s, want %s", me.Code, me.Body, w.Body)
	}
	wrong, unknown := o.login("192.0.2.1:1", "ann", "wrong horse"), o.login("192.0.2.1:1", "bob", password)
	if webtest.Summary(wrong) != "401  no_session" || wrong.Body.String() != unknown.Body.String() || wrong.Code != unknown.Code {
		t.Errorf("a wrong password: %s; an unknown name: %s", wrong.Body, unknown.Body)
	}
	if got := webtest.Summary(o.login("192.0.2.1:1", "broken", password)); got != "503  unavailable" {
		t.Errorf("a broken hash: %q", got)
	}
	if got := webtest.Summary(o.login("192.0.2.1:1", "ann", password, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })); got != "403  csrf" {
		t.Errorf("from another site: %q", got)
	}
	if got := webtest.Summary(o.login("192.0.2.1:1", "ann", strings.Repeat("x", 257))); got != "400  invalid" {
		t.Errorf("a password without end: %q", got)
	}
	out := o.ask("POST", "/api/logout", "")
	if set := out.Result().Cookies(); out.Code != 204 || len(set) != 1 || set[0].MaxAge >= 0 || set[0].Value != "" {
		t.Errorf("logout: %d %v", out.Code, set)
	}
	o.now = webtest.Start().Add(13 * time.Hour)
	me = httptest.NewRecorder()
	if o.ServeHTTP(me, r); me.Code != 401 {
		t.Errorf("a session that is over: %d", me.Code)
	}
	secure := openOffice(t, func(c *office.Config) { c.Secure = true })
	if c := secure.login("192.0.2.1:1", "ann", password).Result().Cookies(); len(c) != 1 || !c[0].Secure {
		t.Errorf("behind TLS the cookie is %v", c)
	}
}

// TestGuessing tries many passwords: a few of a name at an address, and a few more of an
// address. Other addresses are not blocked.
func TestGuessing(t *testing.T) {
	// Whether the name is there makes no difference.
	for i, name := range []string{"ann", "unknown"} {
		o := openOffice(t, nil)
		tried := map[string]int{}
		for range 12 {
			w := o.login(fmt.Sprintf("198.51.10%d.1:1", i), name, "guess")
			tried[webtest.Summary(w)]++
			if w.Code == 429 && w.Header().Get("Retry-After") == "" {
				t.Error("429 without Retry-After")
			}
		}
		if tried["401  no_session"] != 5 || tried["429 L1 too_many"] != 7 {
			t.Errorf("guesses of the name %s: %v", name, tried)
		}
		if w := o.login("192.0.2.1:1", "ann", password); w.Code != 200 {
			t.Errorf("ann, while another address guesses the name %s elsewhere: %d %s", name, w.Code, w.Body)
		}
	}
}

// TestChangedPassword checks that who changes the password ends the sessions of before, on every device.
func TestChangedPassword(t *testing.T) {
	o := openOffice(t, nil)
	me := func(c *http.Cookie) int {
		r := httptest.NewRequest("GET", "/api/me", nil)
		r.AddCookie(c)
		w := httptest.NewRecorder()
		o.ServeHTTP(w, r)
		return w.Code
	}
	before := o.login("192.0.2.1:1", "ann", password).Result().Cookies()[0]
	if got := me(before); got != 200 {
		t.Fatalf("a session: %d", got)
	}
	change := func() {
		hash, err := account.HashPassword("another horse")
		if err != nil {
			t.Fatal(err)
		}
		o.staff.add("ann", account.Owner, hash)
	}
	change()
	if got := me(before); got != 401 {
		t.Errorf("a session from before the password changed: %d, want 401", got)
	}
	after := o.login("192.0.2.1:1", "ann", "another horse").Result().Cookies()[0]
	if got := me(after); got != 200 {
		t.Errorf("a session from after it: %d", got)
	}
	// The same password again is another hash: it ends them, too.
	change()
	if got := me(after); got != 401 {
		t.Errorf("a session from before it was set again: %d, want 401", got)
	}
	delete(o.staff, "ann")
	if got := me(after); got != 401 {
		t.Errorf("a session of a merchant who is gone: %d, want 401", got)
	}
}

// TestLongName checks that the longest name that the ledger takes can sign in.
func TestLongName(t *testing.T) {
	o := openOffice(t, nil)
	name := strings.Repeat("茶", 42) + "ab"
	o.staff.add(name, account.View, o.staff["ann"].Hash)
	if w := o.login("192.0.2.1:1", name, password); w.Code != 200 {
		t.Errorf("%d bytes: %d %s", len(name), w.Code, w.Body)
	}
	if w := o.login("192.0.2.1:1", name+"c", password); w.Code != 400 {
		t.Errorf("%d bytes: %d, want 400", len(name)+1, w.Code)
	}
}

// TestLoginsAtOnce checks that merchants who sign in at the same time wait for each other's hashes for a
// moment, and none is sent away.
func TestLoginsAtOnce(t *testing.T) {
	o := openOffice(t, nil)
	codes := make(chan int, 5)
	for i := range 5 {
		go func() { codes <- o.login(fmt.Sprintf("192.0.2.%d:1", i+1), "ann", password).Code }()
	}
	for range 5 {
		if code := <-codes; code != 200 {
			t.Errorf("status %d, want 200", code)
		}
	}
}
