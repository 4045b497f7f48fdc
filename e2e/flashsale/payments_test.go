package flashsale_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/flashsale/payments"
	"github.com/floodweir/weir/flashsale/payments/httpform"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/signing"
	"github.com/floodweir/weir/flashsale/verify/auditor"
	"github.com/floodweir/weir/flashsale/verify/paytest"
	"github.com/floodweir/weir/internal/porttest"
)

// A served is a process of `flashsale serve`.
type served struct {
	url string
	cmd *exec.Cmd
}

// serve starts the built program on a directory.
func serve(t *testing.T, data string, args ...string) *served {
	t.Helper()
	s := &served{cmd: exec.Command(programtest.Build(t, "./flashsale"), append([]string{"serve", "--data", data, "--office", "127.0.0.1:0"}, args...)...)}
	s.cmd.Stderr = os.Stderr
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if s.url = strings.TrimSpace(strings.TrimPrefix(line, "shop:")); err != nil || !strings.HasPrefix(s.url, "http") {
		t.Fatalf("serve: %q, %v", line, err)
	}
	return s
}

func (s *served) kill() {
	if s.cmd.ProcessState == nil {
		s.cmd.Process.Signal(syscall.SIGKILL)
		s.cmd.Wait()
	}
}

// A payer is a buyer in a browser without scripts.
type payer struct {
	t      *testing.T
	client *http.Client
	shop   string
	order  string // the path of the order
}

// ask calls the shop and decodes the response. It tries again while the shop is away or refuses
// for a moment.
func (p *payer) ask(method, path, body string, want int) map[string]any {
	p.t.Helper()
	last := ""
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
		r, err := http.NewRequest(method, p.shop+path, strings.NewReader(body))
		if err != nil {
			p.t.Fatal(err)
		}
		r.Header.Set("Flashsale-Request", "1")
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		res, err := p.client.Do(r)
		if err != nil {
			last = err.Error()
			continue
		}
		var text bytes.Buffer
		text.ReadFrom(res.Body)
		res.Body.Close()
		last = fmt.Sprintf("%d %s", res.StatusCode, &text)
		if res.StatusCode == want {
			all := map[string]any{}
			json.Unmarshal(text.Bytes(), &all)
			return all
		}
	}
	p.t.Fatalf("%s %s: %s, want %d", method, path, last, want)
	return nil
}

// buys gets a unit, and the page of its payment.
func buys(t *testing.T, shop, id string) (p *payer, page string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	p = &payer{t: t, client: &http.Client{Jar: jar, Timeout: 10 * time.Second}, shop: shop}
	p.ask("POST", "/api/session", "", http.StatusCreated)
	token := ""
	for token == "" {
		status := p.ask("POST", "/api/sales/"+id+"/ticket", "{}", http.StatusOK)
		token, _ = status["token"].(string)
	}
	bought := p.ask("POST", "/api/sales/"+id+"/orders", fmt.Sprintf(`{"token":%q}`, token), http.StatusAccepted)
	p.order = "/api/orders/" + bought["receipt"].(string)
	page, _ = p.ask("POST", p.order+"/pay", "{}", http.StatusOK)["checkout"].(string)
	return p, page
}

// pays presses the button of the provider's page.
func (p *payer) pays(page string) {
	p.t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Post(page, "", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusSeeOther || !strings.HasSuffix(res.Header.Get("Location"), "/orders") {
		p.t.Errorf("the provider's page: %d, to %q", res.StatusCode, res.Header.Get("Location"))
	}
}

// becomes waits until the order has a state.
func (p *payer) becomes(want string, refunded float64) {
	p.t.Helper()
	var got map[string]any
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); <-time.After(200 * time.Millisecond) {
		if got = p.ask("GET", p.order, "", http.StatusOK); got["state"] == want && got["refunded"] == refunded {
			return
		}
	}
	p.t.Errorf("the order is %v, want %s with %v refunded", got, want, refunded)
}

// TestPayments runs the built program with a provider over HTTP whose notifications are delayed,
// repeated, forged and lost, and kills the program. No buyer can mark an order as paid.
func TestPayments(t *testing.T) {
	t.Parallel()
	data, program := t.TempDir(), programtest.Build(t, "./flashsale")
	text, err := exec.Command(program, "payments", "key", "add", "default", "--data", data).Output()
	if err != nil {
		t.Fatal(err)
	}
	key, err := signing.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	s := exposedIn(t, data)
	bank := &paytest.Bank{}
	server := httptest.NewServer(bank.Handler(func() []signing.Secret { return []signing.Secret{key} }))
	defer server.Close()
	bank.URL = server.URL
	shop := serve(t, data, "--shop", porttest.Address(t), "--payments", server.URL) // used again after a kill
	var mu sync.Mutex
	keys := []signing.Secret{key}
	bank.Send = func(e payments.Event) error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		mu.Lock()
		to, with := shop.url, keys[0]
		mu.Unlock()
		forged := e
		forged.Kind = payments.Refunded
		if err := httpform.Report(ctx, http.DefaultClient, to+"/api/payments/notify/default", forged, signing.New()); err == nil {
			t.Error("a forged notification is accepted")
		}
		return httpform.Report(ctx, http.DefaultClient, to+"/api/payments/notify/default", e, with)
	}

	type purchase struct {
		faults paytest.Faults
		state  string
		back   float64
	}
	var waits []func()
	for _, c := range []purchase{
		{paytest.Faults{Delay: time.Second}, "paid", 0},
		{paytest.Faults{Duplicate: 2, Reorder: true}, "paid", 0},
		{paytest.Faults{Lose: true}, "paid", 0}, // the deadline finds it
		{paytest.Faults{WrongAmount: -1}, "expired", 1},
	} {
		p, page := buys(t, shop.url, s.ID)
		for _, body := range []string{`{"after_ms":0}`, `{"payment":"p-1"}`} {
			p.ask("POST", p.order+"/pay", body, http.StatusBadRequest)
		}
		p.ask("POST", "/api/payments/callback", `{"receipt":"x","payment":"p","amount":1999}`, http.StatusNotFound)
		if got := p.ask("GET", p.order, "", http.StatusOK)["state"]; got != "pending_pay" && got != "reserved" {
			t.Errorf("before the payment: %v", got)
		}
		bank.Set(c.faults)
		p.pays(page)
		waits = append(waits, func() { p.becomes(c.state, c.back) })
	}
	for _, wait := range waits {
		wait()
	}
	bank.Wait()

	// The key is rotated: the new one is valid at once after a restart, the one before still is.
	if _, err = exec.Command(program, "payments", "key", "rotate", "default", "--data", data).Output(); err != nil {
		t.Fatal(err)
	}

	// The program is killed while the money arrives, and started again at the same address.
	bank.Set(paytest.Faults{Delay: 500 * time.Millisecond})
	p, page := buys(t, shop.url, s.ID)
	p.pays(page)
	shop.kill()
	again := serve(t, data, "--shop", strings.TrimPrefix(shop.url, "http://"), "--payments", server.URL)
	p.becomes("paid", 0)
	bank.Wait()
	again.kill()

	a := openAuditor(t, auditor.Config{Database: data + "/flashsale.db"})
	r, err := a.Final(t.Context(), auditor.Facts{})
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range r.Findings {
		if f.Violations > 0 {
			t.Errorf("%s: %v", name, f.Examples)
		}
	}
	if r.Findings[auditor.PayOrTimeout].Checks == 0 {
		t.Error("the auditor checked no payment")
	}
}

// exposedIn exposes a sale of 20 units in a directory that no process serves.
func exposedIn(t *testing.T, data string) sale.Sale {
	t.Helper()
	sys, err := run.Start(t.Context(), run.Config{Data: data, Shop: "127.0.0.1:0", Office: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now().Add(200 * time.Millisecond).Truncate(time.Millisecond)
	s := expose(t, sys.Merchants, "merchant", sale.Draft{SKU: "tea", Title: "Tea", Price: 1999, Currency: "CNY", Stock: 20, PerUser: 1, StartsAt: start, EndsAt: start.Add(time.Hour),
		Queue: sale.Fifo, PayWithin: 12 * time.Second}) // six are too few on a busy machine
	if err := sys.Stop(); err != nil {
		t.Fatal(err)
	}
	return s
}
