package webtest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// An office is a merchant who is signed in.
type office struct {
	s      *suite
	cookie string
	csrf   string
}

// sold is what a sale of the suite says.
type sold struct {
	Title    string
	Stock    int
	StartsIn time.Duration
	Queue    string
	Work     int
}

func (s *suite) signIn(t *testing.T) *office {
	t.Helper()
	o := &office{s: s}
	a := o.do(t, "POST", "/api/login", object("name", quote(s.Name), "password", quote(s.Password)))
	a.is(t, http.StatusOK, "")
	for _, c := range a.cookies {
		if c.Name == "fs_office" {
			o.cookie = "fs_office=" + c.Value
			if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" {
				t.Errorf("the office's cookie is %v", c)
			}
		}
	}
	o.csrf = a.text("csrf")
	if o.cookie == "" || o.csrf == "" {
		t.Fatalf("login: %v %s", a.header, a.body)
	}
	return o
}

func (o *office) do(t *testing.T, method, path, body string) answered {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, o.s.Office+path, strings.NewReader(body))
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
	return send(t, o.s.Transport, r)
}

func (o *office) post(t *testing.T, path, body string, status int) answered {
	t.Helper()
	a := o.do(t, "POST", path, body)
	a.is(t, status, "")
	return a
}

// expose makes a sale that buyers see, and returns its ID when they do.
func (o *office) expose(t *testing.T, d sold) string {
	t.Helper()
	now := time.Now()
	if d.Queue == "" {
		d.Queue = "fifo"
	}
	a := o.post(t, "/api/sales", object(
		"sku", quote("sku-1"), "title", quote(d.Title), "price", "1999", "currency", quote("CNY"), "stock", fmt.Sprint(d.Stock), "per_user", "1",
		"starts_at", quote(now.Add(d.StartsIn).UTC().Format("2006-01-02T15:04:05.000Z")), "ends_at", quote(now.Add(24*time.Hour).UTC().Format("2006-01-02T15:04:05.000Z")),
		"headroom", "3", "queue", quote(d.Queue), "lobby_ms", "0", "pay_within_ms", "600000", "token_for_ms", "60000", "work", fmt.Sprint(d.Work),
	), http.StatusCreated)
	id := a.text("id")
	o.post(t, "/api/sales/"+id+"/expose", "", http.StatusOK)
	b := o.s.browser()
	for end := time.Now().Add(patience); ; {
		if a := b.do(t, "GET", "/api/sales/"+id, "", nil); a.status == http.StatusOK {
			return id
		} else if time.Now().After(end) {
			t.Fatalf("the sale that was exposed is not seen: %d %s", a.status, a.body)
		}
		<-time.After(50 * time.Millisecond)
	}
}
