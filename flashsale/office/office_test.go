package office_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/account"
	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/office"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/webtest"
	"github.com/floodweir/weir/memstore"
)

// A merchants is a sale.MerchantService that notes what it is asked.
type merchants struct {
	sale.MerchantService

	asked  []string
	draft  sale.Draft
	err    error
	report func(w io.Writer) error

	orders    int // of EachOrder
	exportErr error
}

func (m *merchants) note(format string, args ...any) (sale.Sale, error) {
	m.asked = append(m.asked, fmt.Sprintf(format, args...))
	v := webtest.View()
	return v.Sale, m.err
}

func (m *merchants) Create(_ context.Context, who, key string, d sale.Draft) (sale.Sale, error) {
	m.draft = d
	return m.note("create %s %s", who, key)
}

func (m *merchants) Copy(_ context.Context, who, id, key string) (sale.Sale, error) {
	return m.note("copy %s %s %s", who, id, key)
}

func (m *merchants) CancelOrder(_ context.Context, who, id, reservation, reason string) (sale.Order, error) {
	_, err := m.note("cancel %s %s %s %s", who, id, reservation, reason)
	return sale.Order{State: sale.Cancelled}, err
}

func (m *merchants) RefundOrder(_ context.Context, who, id, reservation, reason string) (sale.Order, error) {
	_, err := m.note("refund %s %s %s %s", who, id, reservation, reason)
	return sale.Order{State: sale.Cancelled, Refunds: 1}, err
}

func (m *merchants) Edit(_ context.Context, who, id string, version int64, d sale.Draft) (sale.Sale, error) {
	m.draft = d
	return m.note("edit %s %s %d", who, id, version)
}

func (m *merchants) Sales(_ context.Context, who, after string) ([]sale.Sale, error) {
	s, err := m.note("mine %s %s", who, after)
	return []sale.Sale{s}, err
}

func (m *merchants) Sale(_ context.Context, who, id string) (sale.Sale, error) {
	return m.note("get %s %s", who, id)
}

func (m *merchants) Check(_ context.Context, who, id string) ([]string, error) {
	_, err := m.note("check %s %s", who, id)
	return nil, err
}

func (m *merchants) Warm(_ context.Context, who, id string) error {
	_, err := m.note("warm %s %s", who, id)
	return err
}

func (m *merchants) Expose(_ context.Context, who, id string) (sale.Sale, error) {
	return m.note("expose %s %s", who, id)
}

func (m *merchants) Pause(_ context.Context, who, id string) (sale.Sale, error) {
	return m.note("pause %s %s", who, id)
}

func (m *merchants) Resume(_ context.Context, who, id string) (sale.Sale, error) {
	return m.note("resume %s %s", who, id)
}

func (m *merchants) AddStock(_ context.Context, who, id, key string, units int64) (sale.Sale, error) {
	return m.note("stock %s %s %s %d", who, id, key, units)
}

func (m *merchants) End(_ context.Context, who, id string, kill bool) (sale.Sale, error) {
	return m.note("end %s %s %v", who, id, kill)
}

func (m *merchants) Dashboard(_ context.Context, who, id string) (sale.Dashboard, error) {
	_, err := m.note("board %s %s", who, id)
	totals := sale.OrderTotals{Sale: sale.Sale{Draft: sale.Draft{Price: 50}}}
	point := sale.CurvePoint{At: time.UnixMilli(5000), Admitted: 4, Reserved: 3, Paid: 2, Waiting: 9, Free: 7}
	later := point
	later.At, later.Free = time.UnixMilli(10_000), 6
	return sale.Dashboard{View: webtest.View(), Totals: totals, Lag: 1500 * time.Microsecond, Curves: []sale.CurvePoint{point, later}}, err
}

func (m *merchants) RecentOrders(_ context.Context, who, id, _ string) ([]sale.Order, error) {
	_, err := m.note("orders %s %s", who, id)
	return []sale.Order{{State: sale.Paid, Contact: sale.Contact{Name: "李丽", Phone: "+86 138 0013 8066"}}}, err
}

func (m *merchants) Report(_ context.Context, who, id string, contacts bool, w io.Writer) error {
	if _, err := m.note("report %s %s %v", who, id, contacts); err != nil {
		return err
	}
	return m.report(w)
}

func (m *merchants) EachOrder(_ context.Context, who, id string, row func(sale.Order) error) error {
	if _, err := m.note("each %s %s", who, id); err != nil {
		return err
	}
	for i := range m.orders {
		o := sale.Order{Reservation: sale.Reservation{ID: fmt.Sprint("r-", i), User: "eve", Slot: 1}, State: sale.Cancelled, Price: 100, Refunds: 1, Refunded: 1, Returned: 100}
		if err := row(o); err != nil {
			return err
		}
	}
	return m.exportErr
}

func (m *merchants) Reconcile(_ context.Context, who, id string) (sale.ReconcileResult, error) {
	_, err := m.note("reconcile %s %s", who, id)
	return sale.ReconcileResult{Free: 3, FreeBefore: 2, Returned: 1, Changed: 1}, err
}

func (m *merchants) SharedNetworks(_ context.Context, who, id string) ([]sale.SharedNetwork, error) {
	_, err := m.note("networks %s %s", who, id)
	return []sale.SharedNetwork{{Network: "2001:db8::/64", Users: 3, Orders: 2}}, err
}

func (m *merchants) AuditLog(_ context.Context, who, id string) ([]sale.AuditEntry, error) {
	_, err := m.note("log %s %s", who, id)
	return []sale.AuditEntry{{At: webtest.Start(), Actor: "m", Sale: id, Event: "exposed"}}, err
}

// staff is an account.Store with accounts that only a test changes.
type staff map[string]account.Account

// accounts is a staff with the other methods of a Store.
type accounts struct {
	account.Store
	staff staff
}

func (a accounts) Account(ctx context.Context, name string) (account.Account, error) {
	return a.staff.Account(ctx, name)
}

func (s staff) add(name string, role account.Role, hash string) {
	s[name] = account.Account{Merchant: "ann", Name: name, Role: role, Hash: hash}
}

func (s staff) Account(_ context.Context, name string) (account.Account, error) {
	if a, ok := s[name]; ok {
		return a, nil
	}
	return account.Account{}, sale.ErrNotFound
}

type premises struct {
	*office.Office
	desk  *merchants
	keys  *pass.Keys
	staff staff
	now   time.Time
}

const password = "correct horse"

func openOffice(t *testing.T, change func(c *office.Config)) *premises {
	t.Helper()
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	l, err := layers.New(layers.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := pass.NewKeys(make([]byte, pass.SecretSize))
	if err != nil {
		t.Fatal(err)
	}
	hash, err := account.HashPassword(password)
	if err != nil {
		t.Fatal(err)
	}
	o := &premises{desk: &merchants{}, keys: keys, staff: staff{}, now: webtest.Start()}
	o.staff.add("ann", account.Owner, hash)
	o.staff.add("broken", account.Owner, "x")
	c := office.Config{Service: o.desk, Accounts: accounts{nil, o.staff}, Keys: keys, Layers: l, Clock: func() time.Time { return o.now }}
	if change != nil {
		change(&c)
	}
	if o.Office, err = office.New(c); err != nil {
		t.Fatal(err)
	}
	return o
}

// session returns the cookie of ann after a login, valid until a time.
func (o *premises) session(until time.Time) string { return o.sessionOf("ann", until) }

func (o *premises) sessionOf(name string, until time.Time) string {
	signed := o.keys.Office(pass.Session{User: name, Expires: until})
	return signed + "." + o.keys.Password(signed, o.staff[name].Hash)
}

// as returns what makes ask a request of another account.
func (o *premises) as(name string) func(r *http.Request) {
	return func(r *http.Request) {
		session := o.sessionOf(name, webtest.Start().Add(time.Hour))
		r.Header.Set("Cookie", "fs_office="+session)
		r.Header.Set("Flashsale-CSRF", o.keys.CSRF(session))
	}
}

// ask sends what a merchant's page sends.
func (o *premises) ask(method, path, body string, change ...func(r *http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	session := o.session(webtest.Start().Add(time.Hour))
	r.Header.Set("Cookie", "fs_office="+session)
	r.Header.Set("Flashsale-CSRF", o.keys.CSRF(session))
	r.Header.Set("Idempotency-Key", "k-1")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	o.ServeHTTP(w, r)
	return w
}

const draft = `{"sku":"s-1","title":"T","price":100,"currency":"CNY","stock":5,"per_user":2,"starts_at":"2026-11-11T20:00:00.250+08:00","ends_at":"2026-11-11T13:00:00Z","headroom":4,"queue":"shuffled","lobby_ms":60000,"pay_within_ms":900000,"token_for_ms":30000,"work":16`

func TestOfficeCalls(t *testing.T) {
	for _, c := range []struct {
		method, path, body, asked string
		status                    int
		says                      string
	}{
		{"GET", "/api/me", "", "", 200, `"name":"ann"`},
		{"GET", "/api/sales", "", "mine ann ", 200, `{"sales":[{"id":"a1"`},
		{"GET", "/api/sales?after=b2", "", "mine ann b2", 200, `"per_user":1`},
		{"GET", "/api/sales?after=B-2", "", "", 400, `"field":"after"`},
		{"POST", "/api/sales", draft + "}", "create ann k-1", 201, `"starts_at":"2026-11-11T12:00:00.000Z"`},
		{"GET", "/api/sales/a1", "", "get ann a1", 200, `"token_for_ms":30000`},
		{"PUT", "/api/sales/a1", draft + `,"version":7}`, "edit ann a1 7", 200, `"version":0`},
		{"PUT", "/api/sales/a1", draft + `}`, "", 400, `"field":"version"`},
		{"POST", "/api/sales/a1/copy", "", "copy ann a1 k-1", 201, `"id":"a1"`},
		{"POST", "/api/sales/a1/copy", `{"x":1}`, "", 400, `"field":"x"`},
		{"POST", "/api/sales/a1/orders/r-1/cancel", `{"reason":"typo"}`, "cancel ann a1 r-1 typo", 200, `"state":"cancelled"`},
		{"POST", "/api/sales/a1/orders/r-1/cancel", "", "", 400, `"field":"reason"`},
		{"POST", "/api/sales/a1/orders/r-1/refund", `{"reason":"broken"}`, "refund ann a1 r-1 broken", 200, `"refunds":1,"refunded":0`},
		{"POST", "/api/sales/a1/orders/r-1/refund", "", "", 400, `"field":"reason"`},
		{"POST", "/api/sales/a1/check", "", "check ann a1", 200, `{"faults":[]}`},
		{"POST", "/api/sales/a1/warm", "", "warm ann a1 get ann a1", 200, `"id":"a1"`},
		{"POST", "/api/sales/a1/expose", "{}", "expose ann a1", 200, `"state":"exposed"`},
		{"POST", "/api/sales/a1/pause", "", "pause ann a1", 200, ""},
		{"POST", "/api/sales/a1/resume", "", "resume ann a1", 200, ""},
		{"POST", "/api/sales/a1/kill", "", "end ann a1 true", 200, ""},
		{"POST", "/api/sales/a1/end", "", "end ann a1 false", 200, ""},
		{"POST", "/api/sales/a1/stock", `{"units":3}`, "stock ann a1 k-1 3", 200, ""},
		{"POST", "/api/sales/a1/stock", `{"units":0}`, "", 400, `"field":"units"`},
		{"POST", "/api/sales/a1/stock", ``, "", 400, `"field":"units"`},
		{"GET", "/api/sales/a1/board", "", "board ann a1", 200, `"lag_ms":2`},
		{"GET", "/api/sales/a1/board?from=5000", "", "board ann a1", 200, `"curves":{"columns":["at","admitted","reserved","paid","revenue","waiting","free"],"rows":[[5000,4,3,2,100,9,7],[10000,4,3,2,100,9,6]]}`},
		{"GET", "/api/sales/a1/board?from=5001", "", "board ann a1", 200, `"rows":[[10000,4,3,2,100,9,6]]`},
		{"GET", "/api/sales/a1/board?from=x", "", "", 400, `"field":"from"`},
		{"POST", "/api/sales/a1/reconcile", "", "reconcile ann a1", 200, `{"free":3,"free_before":2,"returned":1,"dropped":0,"changed":1}`},
		{"GET", "/api/sales/a1/networks", "", "networks ann a1", 200, `{"networks":[{"network":"2001:db8::/64","users":3,"orders":2}]}`},
		{"GET", "/api/sales/a1/log", "", "log ann a1", 200, `{"log":[{"at":"2026-11-11T12:00:00.000Z","actor":"m","sale":"a1","what":"exposed"}]}`},
		{"POST", "/api/sales/a1/expose", `{"x":1}`, "", 400, `"field":"x"`},
		{"POST", "/api/sales/A1/expose", "", "", 404, "not_found"},
		{"DELETE", "/api/sales/a1", "", "", 405, "invalid"},
		{"GET", "/api/login", "", "", 405, "invalid"},
		{"GET", "/api/sales/a1/", "", "", 404, "not_found"},
		{"GET", "/api//sales", "", "", 404, "not_found"},
		{"GET", "/api/../metrics", "", "", 404, "not_found"},
		{"GET", "/metrics", "", "", 404, "not_found"},
		{"GET", "/healthz", "", "", 200, ""},
		{"GET", "/readyz", "", "", 200, ""},
		{"POST", "/api/logout", "", "", 204, ""},
		{"GET", "/elsewhere", "", "", 404, "not_found"},
	} {
		o := openOffice(t, nil)
		w := o.ask(c.method, c.path, c.body)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) || strings.Join(o.desk.asked, " ") != c.asked {
			t.Errorf("%s %s: %d %s, asked %q; want %d %s, %q", c.method, c.path, w.Code, w.Body, o.desk.asked, c.status, c.says, c.asked)
		}
		if w.Body.Len() > 0 && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s %s: no JSON: %s", c.method, c.path, w.Body)
		}
		if w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(w.Header().Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("%s %s: fields %v", c.method, c.path, w.Header())
		}
	}
}

func TestOfficeIsForMerchants(t *testing.T) {
	o := openOffice(t, nil)
	for name, change := range map[string]func(r *http.Request){
		"no cookie": func(r *http.Request) { r.Header.Del("Cookie") },
		"a buyer's": func(r *http.Request) {
			r.Header.Set("Cookie", "fs_office="+o.keys.Session(pass.Session{User: "ann", Expires: webtest.Start().Add(time.Hour)}))
		},
		"one that is old": func(r *http.Request) {
			r.Header.Set("Cookie", "fs_office="+o.session(webtest.Start()))
		},
		"one that is bound to no password": func(r *http.Request) {
			r.Header.Set("Cookie", "fs_office="+o.keys.Office(pass.Session{User: "ann", Expires: webtest.Start().Add(time.Hour)}))
		},
		"one without a merchant": func(r *http.Request) {
			signed := o.keys.Office(pass.Session{User: "bob", Expires: webtest.Start().Add(time.Hour)})
			r.Header.Set("Cookie", "fs_office="+signed+"."+o.keys.Password(signed, ""))
		},
		"what proves a page, as a password": func(r *http.Request) {
			signed := o.keys.Office(pass.Session{User: "ann", Expires: webtest.Start().Add(time.Hour)})
			r.Header.Set("Cookie", "fs_office="+signed+"."+o.keys.CSRF(signed+"\n"+o.staff["ann"].Hash))
		},
		"a role": func(r *http.Request) { r.Header.Set("Cookie", ""); r.Header.Set("X-User-Role", "admin") },
	} {
		if got := webtest.Summary(o.ask("POST", "/api/sales/a1/expose", "", change)); got != "401  no_session" {
			t.Errorf("%s: %q, want 401", name, got)
		}
	}
	for name, change := range map[string]func(r *http.Request){
		"none":      func(r *http.Request) { r.Header.Del("Flashsale-CSRF") },
		"another's": func(r *http.Request) { r.Header.Set("Flashsale-CSRF", o.keys.CSRF("other")) },
		"a cookie's": func(r *http.Request) {
			r.Header.Set("Flashsale-CSRF", "")
			r.Header.Set("Flashsale-Request", "1")
		},
	} {
		if got := webtest.Summary(o.ask("POST", "/api/sales/a1/expose", "", change)); got != "403  csrf" {
			t.Errorf("CSRF %s: %q, want 403", name, got)
		}
	}
	if len(o.desk.asked) != 0 {
		t.Errorf("the desk was asked: %v", o.desk.asked)
	}
}

func TestDrafts(t *testing.T) {
	o := openOffice(t, nil)
	o.ask("POST", "/api/sales", draft+"}")
	want := sale.Draft{
		SKU: "s-1", Title: "T", Price: 100, Currency: "CNY", Stock: 5, PerUser: 2, StartsAt: webtest.Start().Add(250 * time.Millisecond), EndsAt: webtest.Start().Add(time.Hour),
		Headroom: 4, Queue: sale.Shuffled, Lobby: time.Minute, PayWithin: 15 * time.Minute, TokenFor: 30 * time.Second, Work: 16,
	}
	if o.desk.draft != want {
		t.Errorf("the draft is %+v, want %+v", o.desk.draft, want)
	}
	for _, c := range []struct{ from, to, field string }{
		{`"price":100`, `"price":"100"`, "price"}, {`"stock":5`, `"stock":5.0`, "stock"}, {`"per_user":2`, `"per_user":99999999999`, "per_user"},
		{`2026-11-11T13:00:00Z`, `tomorrow`, "ends_at"}, {`2026-11-11T13:00:00Z`, `2026-11-11T13:00:00.0001Z`, "ends_at"}, {`2026-11-11T13:00:00Z`, `0001-01-01T00:00:00Z`, "ends_at"},
		{`"lobby_ms":60000`, `"lobby_ms":-1`, "lobby_ms"}, {`"lobby_ms":60000`, `"lobby_ms":9223372036854775807`, "lobby_ms"},
		{`"work":16`, `"work":"16"`, "work"}, {`"work":16`, `"work":9223372036854775807`, "work"},
		{`"sku"`, `"SKU"`, "SKU"}, {`"title":"T"`, `"title":null`, "title"},
	} {
		w := o.ask("POST", "/api/sales", strings.Replace(draft, c.from, c.to, 1)+"}")
		if w.Code != 400 || !strings.Contains(w.Body.String(), `"field":"`+c.field+`"`) {
			t.Errorf("%s: %d %s, want 400 about %s", c.to, w.Code, w.Body, c.field)
		}
	}
	for _, d := range []struct {
		change func(d *sale.Draft)
		field  string
	}{
		{func(d *sale.Draft) { d.SKU = "" }, "sku"}, {func(d *sale.Draft) { d.Stock = 0 }, "stock"}, {func(d *sale.Draft) { d.PerUser = 11 }, "per_user"},
		{func(d *sale.Draft) { d.EndsAt = d.StartsAt }, "ends_at"}, {func(d *sale.Draft) { d.Queue = "x" }, "queue"},
		{func(d *sale.Draft) { d.Lobby = 2 * time.Hour }, "lobby_ms"}, {func(d *sale.Draft) { d.PayWithin = time.Millisecond }, "pay_within_ms"},
		{func(d *sale.Draft) { d.Work = 25 }, "work"},
		{func(d *sale.Draft) { d.TokenFor = time.Hour }, "token_for_ms"}, {func(d *sale.Draft) { d.Headroom = 11 }, "headroom"},
	} {
		bad := want
		d.change(&bad)
		o.desk.err = bad.Validate()
		if w := o.ask("POST", "/api/sales", draft+"}"); w.Code != 400 || !strings.Contains(w.Body.String(), `"field":"`+d.field+`"`) {
			t.Errorf("%v: %d %s, want 400 about %s", o.desk.err, w.Code, w.Body, d.field)
		}
	}
}

func TestReport(t *testing.T) {
	o := openOffice(t, nil)
	o.desk.report = func(w io.Writer) error { _, err := io.WriteString(w, "a,b\n"); return err }
	w := o.ask("GET", "/api/sales/a1/report.csv", "")
	if w.Code != 200 || w.Body.String() != "a,b\n" || w.Header().Get("Content-Type") != "text/csv; charset=utf-8" || !strings.Contains(w.Header().Get("Content-Disposition"), "a1.csv") {
		t.Errorf("%d %v %q", w.Code, w.Header(), w.Body)
	}
	o.desk.report = func(io.Writer) error { return sale.ErrUnavailable }
	if got := webtest.Summary(o.ask("GET", "/api/sales/a1/report.csv", "")); got != "503  unavailable" {
		t.Errorf("a report that cannot begin: %q", got)
	}
	// One that breaks off does not look whole.
	o.desk.report = func(w io.Writer) error { _, _ = io.WriteString(w, "a,b\n"); return sale.ErrUnavailable }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session := o.session(webtest.Start().Add(time.Hour))
		r.Header.Set("Cookie", "fs_office="+session)
		o.ServeHTTP(w, r)
	}))
	defer server.Close()
	resp, err := http.Get(server.URL + "/api/sales/a1/report.csv")
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	if err == nil {
		t.Error("half a report looks like a whole one")
	}
}

// TestExport checks that the last line of an export has its number of orders, or its error, and that a
// client sees an incomplete one also at the connection.
func TestExport(t *testing.T) {
	o := openOffice(t, nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Cookie", "fs_office="+o.session(webtest.Start().Add(time.Hour)))
		o.ServeHTTP(w, r)
	}))
	defer server.Close()
	get := func() (*http.Response, []string, error) {
		t.Helper()
		resp, err := http.Get(server.URL + "/api/sales/a1/orders.jsonl")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return resp, strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), err
	}
	for _, n := range []int{0, 1, 3000} {
		o.desk.orders = n
		resp, lines, err := get()
		if err != nil || resp.StatusCode != 200 || len(lines) != n+1 || lines[n] != fmt.Sprintf(`{"end":{"orders":%d,"complete":true}}`, n) {
			t.Errorf("%d orders: %d, %d lines, the last is %s, %v", n, resp.StatusCode, len(lines), lines[len(lines)-1], err)
		}
		if kind, name := resp.Header.Get("Content-Type"), resp.Header.Get("Content-Disposition"); kind != "application/jsonl; charset=utf-8" || !strings.Contains(name, "a1.jsonl") {
			t.Errorf("%q, %q", kind, name)
		}
		for i, line := range lines[:n] {
			var order struct {
				Reservation, State, Currency string
				Refunded                     int
				Returned                     int `json:"money_returned"`
			}
			if err := json.Unmarshal([]byte(line), &order); err != nil || order.Reservation != fmt.Sprint("r-", i) || order.State != "cancelled" || order.Currency != "CNY" || order.Refunded != 1 || order.Returned != 100 {
				t.Fatalf("line %d: %s, %v", i, line, err)
			}
		}
	}
	// The database fails after 3,000 orders, and before the first part is sent.
	o.desk.exportErr = sale.ErrUnavailable
	if _, lines, err := get(); err == nil || len(lines) != 3001 || lines[3000] != `{"end":{"orders":3000,"complete":false,"error":"unavailable"}}` {
		t.Errorf("an export that breaks off: %d lines, the last is %s, %v", len(lines), lines[len(lines)-1], err)
	}
	o.desk.orders = 1
	if resp, lines, err := get(); err != nil || resp.StatusCode != 503 {
		t.Errorf("an export that cannot begin: %d %v, %v", resp.StatusCode, lines, err)
	}
}

func TestMetricsAndReadiness(t *testing.T) {
	ready := errors.New("the database of the house is away")
	o := openOffice(t, func(c *office.Config) {
		c.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "metrics") })
		c.MetricsToken = "token"
		c.Ready = func(context.Context) error { return ready }
	})
	bearer := func(token string) func(r *http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", token) }
	}
	for token, want := range map[string]int{"": 401, "Bearer tokem": 401, "token": 401, "Bearer token": 200} {
		if w := o.ask("GET", "/metrics", "", bearer(token)); w.Code != want {
			t.Errorf("metrics with %q: %d, want %d", token, w.Code, want)
		}
	}
	if w := o.ask("GET", "/readyz", ""); w.Code != 503 || strings.Contains(w.Body.String(), "house") {
		t.Errorf("not ready: %d %s", w.Code, w.Body)
	}
	if ready = nil; o.ask("GET", "/readyz", "").Code != 200 {
		t.Error("ready, and not reported")
	}
}

func TestNewWantsItsParts(t *testing.T) {
	if _, err := office.New(office.Config{}); err == nil {
		t.Error("an office of nothing")
	}
}
