package webtest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// An office is a client with a merchant's session.
type office struct {
	suite  *suite
	cookie string
	csrf   string
}

// saleConfig describes a sale of the suite.
type saleConfig struct {
	Title    string
	Stock    int
	StartsIn time.Duration
	Queue    string
	Work     int
	Campaign string // none if empty
	Address  string // optional or required; none if empty
}

func (s *suite) signIn(t *testing.T) *office {
	t.Helper()
	o := &office{suite: s}
	a := o.do(t, "POST", "/api/login", object("name", quote(s.Name), "password", quote(s.Password)))
	a.want(t, http.StatusOK, "")
	for _, c := range a.cookies {
		if c.Name == "fs_office" {
			o.cookie = "fs_office=" + c.Value
			if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" {
				t.Errorf("the session cookie is %v", c)
			}
		}
	}
	o.csrf = a.text("csrf")
	if o.cookie == "" || o.csrf == "" {
		t.Fatalf("login: %v %s", a.header, a.body)
	}
	return o
}

func (o *office) do(t *testing.T, method, path, body string) response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, o.suite.Office+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if o.cookie != "" {
		r.Header.Set("Cookie", o.cookie)
		r.Header.Set("Flashsale-CSRF", o.csrf)
	}
	return send(t, o.suite.Transport, r)
}

func (o *office) post(t *testing.T, path, body string, status int) response {
	t.Helper()
	a := o.do(t, "POST", path, body)
	a.want(t, status, "")
	return a
}

// expose creates a sale and returns its ID when buyers can see it.
func (o *office) expose(t *testing.T, d saleConfig) string {
	t.Helper()
	now := time.Now()
	if d.Queue == "" {
		d.Queue = "fifo"
	}
	a := o.post(t, "/api/sales", object(
		"sku", quote("sku-1"), "title", quote(d.Title), "price", "1999", "currency", quote("CNY"), "stock", fmt.Sprint(d.Stock), "per_user", "1",
		"starts_at", quote(now.Add(d.StartsIn).UTC().Format("2006-01-02T15:04:05.000Z")), "ends_at", quote(now.Add(24*time.Hour).UTC().Format("2006-01-02T15:04:05.000Z")),
		"headroom", "3", "queue", quote(d.Queue), "lobby_ms", "0", "pay_within_ms", "600000", "token_for_ms", "60000", "work", fmt.Sprint(d.Work), "address", quote(d.Address), "campaign", quote(d.Campaign),
	), http.StatusCreated)
	id := a.text("id")
	o.post(t, "/api/sales/"+id+"/expose", "", http.StatusOK)
	b := o.suite.browser()
	if !poll(50*time.Millisecond, func() bool {
		a = b.do(t, "GET", "/api/sales/"+id, "", nil)
		return a.status == http.StatusOK
	}) {
		t.Fatalf("the exposed sale is not visible: %d %s", a.status, a.body)
	}
	return id
}

// board checks the curves of a sale in which units were bought.
func (o *office) board(t *testing.T, id string) {
	path := "/api/sales/" + id + "/board"
	var a response
	var columns, rows []any
	if !poll(250*time.Millisecond, func() bool {
		a = o.do(t, "GET", path, "")
		curves, _ := a.json["curves"].(map[string]any)
		columns, _ = curves["columns"].([]any)
		rows, _ = curves["rows"].([]any)
		return len(rows) > 0
	}) {
		t.Fatalf("the board has no curves: %d %s", a.status, a.body)
	}
	if got := fmt.Sprint(columns); got != "[at admitted reserved paid revenue waiting free]" {
		t.Errorf("the columns are %s", got)
	}
	last, _ := rows[len(rows)-1].([]any)
	if len(last) != len(columns) {
		t.Fatalf("the last row is %v", last)
	}
	from := int64(last[0].(float64))
	if age := time.Since(time.UnixMilli(from)); age < 0 || age > time.Hour {
		t.Errorf("the last row is of %v", time.UnixMilli(from))
	}
	a = o.do(t, "GET", fmt.Sprintf("%s?from=%d", path, from+3_600_000), "")
	if curves, _ := a.json["curves"].(map[string]any); fmt.Sprint(curves["rows"]) != "[]" {
		t.Errorf("rows of the next hour: %v", curves["rows"])
	}
	for _, from := range []string{"x", "-1", "1.5"} {
		o.do(t, "GET", path+"?from="+from, "").want(t, http.StatusBadRequest, "invalid")
	}
}
