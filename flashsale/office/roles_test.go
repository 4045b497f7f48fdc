package office_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/floodweir/weir/flashsale/account"
	"github.com/floodweir/weir/flashsale/catalogue"
	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/office"
	"github.com/floodweir/weir/flashsale/verify/webtest"
)

// openWhole returns an office with all routes, and its ledger.
func openWhole(t *testing.T) (*premises, *ledger.Ledger) {
	t.Helper()
	l, err := ledger.Open(t.Context(), "sqlite::memory:", ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	o := openOffice(t, func(c *office.Config) {
		c.Webhooks = l.Webhooks()
		c.Products = &catalogue.Copier{Store: l.Products()}
		c.Accounts = accounts{l.Accounts(), c.Accounts.(accounts).staff}
	})
	o.desk.report = func(w io.Writer) error { _, err := io.WriteString(w, "a\n"); return err }
	for _, role := range account.Roles() {
		o.staff.add(string(role), role, "hash of "+string(role))
	}
	return o, l
}

// TestEveryRouteHasARole compares the routes with the table of roles, and wants that only the
// router adds routes.
func TestEveryRouteHasARole(t *testing.T) {
	o, _ := openWhole(t)
	routes, roles := office.Patterns(o.Office), office.Needed()
	for _, pattern := range routes {
		if roles[pattern] == "" {
			t.Errorf("%s has no role: add it to the table in roles.go", pattern)
		}
	}
	for pattern, role := range roles {
		if !slices.Contains(routes, pattern) {
			t.Errorf("the table has %s, which is no route", pattern)
		}
		if !role.Valid() && role != office.Public {
			t.Errorf("%s needs %q, which is no role", pattern, role)
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if name != "roles.go" && !strings.HasSuffix(name, "_test.go") && regexp.MustCompile(`\bmux\.Handle(Func)?\(`).Match(text) {
			t.Errorf("%s adds a route without the router", name)
		}
	}
}

// TestRolesOfRoutes sends a request to each route by an account of each role.
func TestRolesOfRoutes(t *testing.T) {
	o, _ := openWhole(t)
	fill := regexp.MustCompile(`\{\w+\}`)
	for pattern, needed := range office.Needed() {
		method, path, _ := strings.Cut(pattern, " ")
		path = fill.ReplaceAllString(path, "a1")
		for _, role := range account.Roles() {
			o.desk.asked = nil
			w := o.ask(method, path, map[string]string{"POST": "{}", "PUT": "{}"}[method], o.as(string(role)))
			got := webtest.Summary(w)
			switch {
			case needed == office.Public || role.Includes(needed):
				if w.Code == http.StatusForbidden || strings.HasPrefix(got, "401  no_session") && needed != office.Public {
					t.Errorf("%s by %s: %q, want it permitted", pattern, role, got)
				}
			case got != "403  needs_"+string(needed) || !strings.Contains(w.Body.String(), fmt.Sprintf("this needs the role %s; the account %s has the role %s", needed, role, role)):
				t.Errorf("%s by %s: %q %s, want needs_%s", pattern, role, got, w.Body, needed)
			case len(o.desk.asked) > 0:
				t.Errorf("%s by %s: refused, after %v", pattern, role, o.desk.asked)
			}
		}
	}
}

// TestRoleTakesEffect changes an account during its session.
func TestRoleTakesEffect(t *testing.T) {
	o, _ := openWhole(t)
	as, hash := o.as("manage"), o.staff["manage"].Hash
	pause := func() string { return webtest.Summary(o.ask("POST", "/api/sales/a1/pause", "", as)) }
	if got := pause(); got != "200" {
		t.Fatalf("manage: %q", got)
	}
	o.staff.add("manage", account.Service, hash)
	if got := pause(); got != "403  needs_manage" {
		t.Errorf("demoted: %q", got)
	}
	o.staff["manage"] = account.Account{Merchant: "ann", Name: "manage", Role: account.Manage, Hash: hash, Disabled: true}
	if got := pause(); got != "401  no_session" {
		t.Errorf("disabled: %q", got)
	}
	disabled := o.staff["ann"]
	disabled.Disabled = true
	o.staff["ann"] = disabled
	if got, wrong := o.login("192.0.2.1:1", "ann", password), o.login("192.0.2.1:1", "ann", "wrong horse"); got.Code != 401 || got.Body.String() != wrong.Body.String() {
		t.Errorf("login of a disabled account: %d %s, want as with a wrong password: %s", got.Code, got.Body, wrong.Body)
	}
}

// TestContactsByRole checks that contact data is masked below service.
func TestContactsByRole(t *testing.T) {
	o, _ := openWhole(t)
	for role, want := range map[account.Role]string{
		account.View: `"contact":{"name":"李**","phone":"***66"}`, account.Service: `"contact":{"name":"李丽","phone":"+86 138 0013 8066"}`, account.Owner: `"name":"李丽"`,
	} {
		o.desk.asked = nil
		if w := o.ask("GET", "/api/sales/a1/orders", "", o.as(string(role))); w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("orders by %s: %d %s, want %s", role, w.Code, w.Body, want)
		}
		o.ask("GET", "/api/sales/a1/report.csv", "", o.as(string(role)))
		if got, want := strings.Join(o.desk.asked, "; "), fmt.Sprintf("orders ann a1; report ann a1 %v", role != account.View); got != want {
			t.Errorf("report by %s: asked %q, want %q", role, got, want)
		}
	}
}

// client is an account with the session of its login.
type client struct {
	o            *premises
	cookie, csrf string
}

func (c *client) login(t *testing.T, name, password string) {
	t.Helper()
	w := c.o.login("192.0.2.1:1", name, password)
	if w.Code != 200 {
		t.Fatalf("login of %s: %d %s", name, w.Code, w.Body)
	}
	c.take(w)
}

func (c *client) take(w *httptest.ResponseRecorder) {
	c.cookie = w.Result().Cookies()[0].Value
	c.csrf = regexp.MustCompile(`"csrf":"([^"]+)"`).FindStringSubmatch(w.Body.String())[1]
}

func (c *client) ask(method, path, body string) *httptest.ResponseRecorder {
	return c.o.ask(method, path, body, func(r *http.Request) {
		r.Header.Set("Cookie", "fs_office="+c.cookie)
		r.Header.Set("Flashsale-CSRF", c.csrf)
	})
}

// TestAccounts lets an owner add an account, change its role and its password, and disable it.
func TestAccounts(t *testing.T) {
	l, err := ledger.Open(t.Context(), "sqlite::memory:", ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	hash, err := account.HashPassword(password)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"shop", "other"} {
		if err := l.AddMerchant(t.Context(), name, hash); err != nil {
			t.Fatal(err)
		}
	}
	o := openOffice(t, func(c *office.Config) { c.Accounts = l.Accounts() })
	owner, other := &client{o: o}, &client{o: o}
	owner.login(t, "shop", password)
	// want sends a change by the owner.
	want := func(path, body string, status int, part string) *httptest.ResponseRecorder {
		t.Helper()
		w := owner.ask("POST", path, body)
		if w.Code != status || !strings.Contains(w.Body.String(), part) {
			t.Fatalf("%s %s: %d %s, want %d %s", path, body, w.Code, w.Body, status, part)
		}
		return w
	}
	w := want("/api/accounts", `{"name":"li/丽","role":"service"}`, 201, `"role":"service","disabled":false`)
	generated := regexp.MustCompile(`"password":"([a-z0-9]{26})"`).FindStringSubmatch(w.Body.String())
	if generated == nil {
		t.Fatalf("%s, want a generated password", w.Body)
	}
	want("/api/accounts", `{"name":"li/丽","role":"view"}`, 409, "has the name")
	want("/api/accounts", `{"name":"other","role":"view"}`, 409, "has the name")
	want("/api/accounts", `{"name":"payments","role":"view"}`, 400, `"field":"name"`)
	want("/api/accounts", `{"name":"x","role":"root"}`, 400, `"field":"role"`)
	want("/api/accounts", `{"name":"x","role":"view","password":"short"}`, 400, `"field":"password"`)
	other.login(t, "li/丽", generated[1])
	if w := other.ask("GET", "/api/me", ""); !strings.Contains(w.Body.String(), `"merchant":"shop","role":"service"`) {
		t.Errorf("me: %s", w.Body)
	}
	if got := webtest.Summary(other.ask("GET", "/api/accounts", "")); got != "403  needs_owner" {
		t.Errorf("accounts by another role: %q", got)
	}
	want("/api/accounts/role", `{"name":"li/丽","role":"view"}`, 200, `"role":"view"`)
	if got := webtest.Summary(other.ask("GET", "/api/sales/a1/networks", "")); got != "403  needs_service" {
		t.Errorf("after a change of the role: %q", got)
	}
	// The own password needs the current one, and ends other sessions.
	second := &client{o: o}
	second.login(t, "li/丽", generated[1])
	if w := other.ask("POST", "/api/me/password", `{"current":"wrong horse","password":"battery staple"}`); w.Code != 400 || !strings.Contains(w.Body.String(), `"field":"current"`) {
		t.Errorf("with a wrong password: %d %s", w.Code, w.Body)
	}
	w = other.ask("POST", "/api/me/password", `{"current":"`+generated[1]+`","password":"battery staple"}`)
	if w.Code != 200 {
		t.Fatalf("own password: %d %s", w.Code, w.Body)
	}
	other.take(w)
	if one, two := other.ask("GET", "/api/me", "").Code, second.ask("GET", "/api/me", "").Code; one != 200 || two != 401 {
		t.Errorf("after the own password: %d, and %d in the other session", one, two)
	}
	want("/api/accounts/password", `{"name":"li/丽"}`, 200, `"password":"`)
	if got := other.ask("GET", "/api/me", "").Code; got != 401 {
		t.Errorf("after a new password by an owner: %d, want 401", got)
	}
	want("/api/accounts/password", `{"name":"li/丽","password":"correct horse"}`, 200, `"role":"view"`)
	other.login(t, "li/丽", password)
	want("/api/accounts/disable", `{"name":"li/丽"}`, 200, `"disabled":true`)
	if got := other.ask("GET", "/api/me", "").Code; got != 401 {
		t.Errorf("disabled: %d, want 401", got)
	}
	want("/api/accounts/enable", `{"name":"li/丽"}`, 200, `"disabled":false`)
	// The last owner stays one; the own password has its own route; others' accounts are not found.
	want("/api/accounts/disable", `{"name":"shop"}`, 409, "last owner")
	want("/api/accounts/role", `{"name":"shop","role":"manage"}`, 409, "last owner")
	want("/api/accounts/password", `{"name":"shop"}`, 400, `"field":"name"`)
	for _, p := range []string{"role", "password", "disable", "enable"} {
		want("/api/accounts/"+p, map[bool]string{true: `{"name":"other","role":"view"}`, false: `{"name":"other"}`}[p == "role"], 404, "not_found")
	}
	w = owner.ask("GET", "/api/accounts", "")
	if w.Code != 200 || !strings.Contains(w.Body.String(), `{"accounts":[{"name":"li/丽","role":"view","disabled":false,"at":"2026-11-11T12:00:00.000Z"},{"name":"shop","role":"owner","disabled":false,"at":"`) || strings.Contains(w.Body.String(), "argon2") {
		t.Errorf("accounts: %d %s", w.Code, w.Body)
	}
	w = owner.ask("GET", "/api/accounts/log", "")
	for _, part := range []string{`"actor":"shop","sale":"","what":"account li/丽: disabled"`, `"actor":"li/丽","sale":"","what":"account li/丽: new password"`, `"actor":"operator","sale":"","what":"added account shop (owner)"`} {
		if !strings.Contains(w.Body.String(), part) {
			t.Errorf("log: %s, want %s", w.Body, part)
		}
	}
}
