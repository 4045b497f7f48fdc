package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/captcha"
	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/webtest"
)

// nonceOf finds a nonce of exactly so many bits.
func nonceOf(s *shop, id, user string, bits int) string {
	for i := 0; ; i++ {
		if nonce := fmt.Sprint(i); s.keys.WorkDone(id, user, nonce) == bits {
			return nonce
		}
	}
}

// costly is a shop with sales whose tickets cost work, and how often its desk was asked for one.
func costly(t *testing.T, bits int) (*shop, *int) {
	d := selling()
	v := webtest.View()
	v.Sale.Work = bits
	d.view = func(id string) (sale.View, error) {
		if id != "a1" && id != "b2" {
			return sale.View{}, sale.ErrNotFound
		}
		v.Sale.ID = id
		return v, nil
	}
	asked := 0
	d.join = func(string, string, string) (sale.QueueStatus, error) {
		asked++
		return sale.QueueStatus{State: sale.Waiting, New: true}, nil
	}
	return open(t, d, layers.Config{Policies: wide()}), &asked
}

// TestWork checks that a ticket requires the user's own work for this sale, to the bit, and
// that a refusal has the missing work. The service is not called before.
func TestWork(t *testing.T) {
	s, asked := costly(t, 10)
	place := func(id, user string) string {
		return s.keys.Ticket(pass.Ticket{Sale: id, Epoch: 1, User: user, Ticket: "0123456789abcdef", Rank: 7})
	}
	body := func(pairs ...string) string {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		b, _ := json.Marshal(m)
		return string(b)
	}
	enough := nonceOf(s, "a1", "u", 10)
	for _, c := range []struct {
		name, body string
		want, says string // of a refusal: what is in its detail
	}{
		{"nothing", "", "403 L3 work_due", "work: got none, "},
		{"an empty body", "{}", "403 L3 work_due", "work: got none, "},
		{"an empty nonce", body("work", ""), "403 L3 work_due", "work: got none, "},
		{"a malformed one", body("work", "a b"), "403 L3 work_due", `work: got "a b", want 1 to 16 letters`},
		{"a long one", body("work", strings.Repeat("a", 17)), "403 L3 work_due", "want 1 to 16 letters"},
		{"a huge one", body("work", strings.Repeat("a", 15_000)), "403 L3 work_due", "want 1 to 16 letters"},
		{"a bit too little", body("work", nonceOf(s, "a1", "u", 9)), "403 L3 work_due", "begins with 9 zero bits, want 10"},
		{"another user's", body("work", nonceOf(s, "a1", "other", 12)), "403 L3 work_due", "zero bits, want 10"},
		{"another sale's", body("work", nonceOf(s, "b2", "u", 13)), "403 L3 work_due", "zero bits, want 10"},
		{"another user's place", body("place", place("a1", "other")), "403 L3 work_due", "work: got none, "},
		{"another sale's place", body("place", place("b2", "u")), "403 L3 work_due", "work: got none, "},
		{"a forged place", body("place", place("a1", "u")+"AA"), "403 L3 work_due", "work: got none, "},
		{"a number", `{"work":7}`, "400  invalid", "work: got 7, want a string"},
		{"twice", `{"work":"1","work":"2"}`, "400  invalid", "work: given twice"},
		{"enough", body("work", enough), "201", ""},
		{"a bit more", body("work", nonceOf(s, "a1", "u", 11)), "201", ""},
		{"once more", body("work", enough), "201", ""},
		{"a place of one's own", body("place", place("a1", "u")), "201", ""},
		{"a place and bad work", body("place", place("a1", "u"), "work", "a b"), "201", ""},
	} {
		before := *asked
		w := s.ask("POST", "/api/sales/a1/ticket", "u", c.body)
		if got := webtest.Summary(w); got != c.want {
			t.Errorf("%s: %q, want %q: %s", c.name, got, c.want, w.Body)
		}
		passed := strings.HasPrefix(c.want, "201")
		if (*asked > before) != passed {
			t.Errorf("%s: the desk was asked: %v, want %v", c.name, *asked > before, passed)
		}
		if passed {
			continue
		}
		var p struct {
			Detail, Field, Challenge string
			Bits                     int
		}
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Field != "work" || !strings.Contains(p.Detail, c.says) || len(p.Detail) > 200 {
			t.Errorf("%s: %v %s, want the field work and %q", c.name, err, w.Body, c.says)
		}
		if w.Code == 403 && (p.Challenge != s.keys.Work("a1", "u") || p.Bits != 10 || w.Header().Get("Retry-After") != "") {
			t.Errorf("%s: %s with Retry-After %q, want the user's own challenge of 10 bits", c.name, w.Body, w.Header().Get("Retry-After"))
		}
	}
	// To ask where one stands costs nothing.
	if w := s.ask("GET", "/api/sales/a1/ticket", "u", ""); w.Code != 200 {
		t.Errorf("GET: %d %s", w.Code, w.Body)
	}
	if n := s.layers.Counts()[sale.L3][sale.WorkRequired]; n != 12 {
		t.Errorf("%d refusals are counted, want 12", n)
	}
}

// TestWorkChallenge checks that a user with a session gets the challenge, also before the start.
func TestWorkChallenge(t *testing.T) {
	s, _ := costly(t, 10)
	s.now = s.now.Add(-time.Hour)
	for _, c := range []struct{ method, path, user, want, body string }{
		{"GET", "/api/sales/a1/work", "u", "200", `{"challenge":"` + s.keys.Work("a1", "u") + `","bits":10}` + "\n"},
		{"GET", "/api/sales/a1/work", "", "401  no_session", ""},
		{"GET", "/api/sales/c3/work", "u", "404  not_found", ""},
		{"POST", "/api/sales/a1/work", "u", "405  invalid", ""},
	} {
		w := s.ask(c.method, c.path, c.user, "")
		if got := webtest.Summary(w); got != c.want || c.body != "" && w.Body.String() != c.body {
			t.Errorf("%s %s of %q: %q %s, want %q %s", c.method, c.path, c.user, got, w.Body, c.want, c.body)
		}
		if got := w.Header().Get("Cache-Control"); got != "no-store" {
			t.Errorf("%s %s: Cache-Control %q", c.method, c.path, got)
		}
	}
	if w := s.ask("GET", "/api/sales/a1", "", ""); !strings.Contains(w.Body.String(), `"work":10,`) {
		t.Errorf("the view: %s", w.Body)
	}
}

// TestNoWork checks that a sale whose tickets need no work ignores work.
func TestNoWork(t *testing.T) {
	s, asked := costly(t, 0)
	for _, body := range []string{"", `{"work":"1"}`, `{"work":"a b"}`} {
		if w := s.ask("POST", "/api/sales/a1/ticket", "u", body); w.Code != 201 {
			t.Errorf("%q: %d %s", body, w.Code, w.Body)
		}
	}
	if *asked != 3 {
		t.Errorf("the desk was asked %d times, want 3", *asked)
	}
	if w := s.ask("GET", "/api/sales/a1/work", "u", ""); !strings.Contains(w.Body.String(), `"bits":0}`) {
		t.Errorf("the work: %s", w.Body)
	}
}

// solved is a captcha.Challenge that returns a fixed error for each token.
type solved map[string]error

func (a solved) Verify(_ context.Context, id, user, token string, addr netip.Addr) error {
	if id != "a1" || user == "" || !addr.IsValid() {
		return errors.New("the shop passed other arguments")
	}
	if err, known := a[token]; known {
		return err
	}
	return fmt.Errorf("unknown: %w", captcha.ErrRejected)
}

// TestCaptcha checks that a ticket requires a solved captcha, and work while the provider of
// captchas is unavailable.
func TestCaptcha(t *testing.T) {
	s, made := costly(t, 0)
	s.Shop = s.with(t, solved{"good": nil, "down": errors.New("no provider")})
	post := func(user, body string) string {
		return webtest.Summary(s.ask("POST", "/api/sales/a1/ticket", user, body))
	}
	for _, c := range []struct{ body, want string }{
		{"", "403 L3 captcha_due"}, {`{"captcha":"bad"}`, "403 L3 captcha_due"}, {`{"captcha":"down"}`, "403 L3 work_due"},
	} {
		if got := post("u", c.body); got != c.want || *made != 0 {
			t.Errorf("%s: %q, %d tickets, want %q", c.body, got, *made, c.want)
		}
	}
	if got := post("u", `{"captcha":"good"}`); got != "201" {
		t.Errorf("with a solved captcha: %q, want 201", got)
	}
	nonce, err := pass.Solve(t.Context(), s.keys.Work("a1", "u"), 18)
	if err != nil {
		t.Fatal(err)
	}
	if got := post("u", fmt.Sprintf(`{"captcha":"down","work":%q}`, nonce)); got != "201" {
		t.Errorf("with work while the provider is unavailable: %q, want 201", got)
	}
	place := s.keys.Ticket(pass.Ticket{Sale: "a1", Epoch: 1, User: "u", Ticket: "0123456789abcdef", Rank: 7})
	if got := post("u", fmt.Sprintf(`{"place":%q}`, place)); got != "201" {
		t.Errorf("with a ticket: %q, want 201", got)
	}
	s, _ = costly(t, 10)
	s.Shop = s.with(t, solved{"good": errors.New("a token was used although work is missing")})
	if w := s.ask("POST", "/api/sales/a1/ticket", "u", `{"captcha":"good"}`); !strings.Contains(w.Body.String(), `"bits":10`) {
		t.Errorf("without work: %s, want work of 10 bits before the captcha is verified", w.Body)
	}
}
