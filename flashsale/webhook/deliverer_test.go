package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/signing"
	"github.com/floodweir/weir/flashsale/webhook"
	"github.com/prometheus/client_golang/prometheus"
	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// world is a ledger with a sale and an endpoint, in virtual time.
type world struct {
	t        *testing.T
	l        *ledger.Ledger
	sale     sale.Sale
	endpoint webhook.Endpoint
	receiver *receiver
	n        int
}

// receiver is an endpoint that verifies each request with the library of Standard Webhooks.
type receiver struct {
	mu      sync.Mutex
	secrets []string
	reply   func(n int, r request) reply // n: the number of the attempt of the event, from 1
	got     []request
	count   map[string]int
	skipped time.Duration // of the clock of the Deliverer
}

// now returns the time of the clock of the Deliverer.
func (v *receiver) now() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return time.Now().Add(v.skipped)
}

// skip moves that clock.
func (v *receiver) skip(d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.skipped += d
}

type request struct {
	at            time.Time
	id, typ, body string
	subject       string
}

type reply struct {
	status     int
	retryAfter string
	location   string
	after      time.Duration
	err        error
	body       string
}

func (v *receiver) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	for _, s := range v.secrets {
		w, err := standard.NewWebhook(s)
		if err == nil {
			err = w.VerifyIgnoringTimestamp(body, r.Header)
			if v.skipped == 0 && err == nil {
				err = w.Verify(body, r.Header)
			}
		}
		if err != nil {
			v.mu.Unlock()
			return nil, fmt.Errorf("receiver: %w", err)
		}
	}
	q := request{at: time.Now().Add(v.skipped), id: r.Header.Get("webhook-id"), body: string(body)}
	var p struct {
		Type string
		Data struct{ Reservation, Sale string }
	}
	if err := json.Unmarshal(body, &p); err != nil || len(body) >= 20_000 {
		v.mu.Unlock()
		return nil, fmt.Errorf("receiver: body of %d bytes: %w", len(body), err)
	}
	if q.typ, q.subject = p.Type, p.Data.Reservation; q.subject == "" {
		q.subject = p.Data.Sale
	}
	v.count[q.id]++
	v.got = append(v.got, q)
	a := reply{status: 204}
	if v.reply != nil {
		a = v.reply(v.count[q.id], q)
	}
	v.mu.Unlock()
	if a.after > 0 {
		select {
		case <-r.Context().Done():
			return nil, r.Context().Err()
		case <-time.After(a.after):
		}
	}
	if a.err != nil {
		return nil, a.err
	}
	h := http.Header{}
	if a.retryAfter != "" {
		h.Set("Retry-After", a.retryAfter)
	}
	if a.location != "" {
		h.Set("Location", a.location)
	}
	return &http.Response{StatusCode: a.status, Header: h, Body: io.NopCloser(strings.NewReader(a.body)), Request: r}, nil
}

func (v *receiver) types() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []string
	for _, q := range v.got {
		all = append(all, q.typ)
	}
	return strings.Join(all, " ")
}

func (v *receiver) requests() []request {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]request(nil), v.got...)
}

// inWorld runs f in virtual time.
func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, receiver: &receiver{count: map[string]int{}}}
		var err error
		check := func() {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		w.l, err = ledger.Open(t.Context(), "sqlite::memory:", ledger.Config{Timeout: time.Hour})
		check()
		defer w.l.Close()
		err = w.l.AddMerchant(t.Context(), "shop", "hash")
		check()
		secret := signing.New().Text()
		w.endpoint, err = w.l.Webhooks().AddEndpoint(t.Context(), "shop", "https://shop.example/hook", secret, time.Now())
		check()
		w.receiver.secrets = []string{secret}
		now := time.Now()
		d := sale.Draft{SKU: "tea", Title: "Tea", Price: 100, Stock: 1000, PerUser: 1, StartsAt: now, EndsAt: now.Add(30 * 24 * time.Hour), PayWithin: time.Hour}
		w.sale, err = w.l.Create(t.Context(), "shop", "", d.WithDefaults(), now)
		check()
		w.sale, err = w.l.SetState(t.Context(), "shop", w.sale.ID, sale.Exposed, "", now, sale.Drafted)
		check()
		f(t, w)
	})
}

// start starts a Deliverer.
func (w *world) start() *webhook.Deliverer {
	w.t.Helper()
	d, err := webhook.New(webhook.Config{Store: w.l.Webhooks(), Client: &http.Client{Transport: w.receiver}, Clock: w.receiver.now})
	if err != nil {
		w.t.Fatal(err)
	}
	d.Start()
	return d
}

// order creates an order and pays it, if paid.
func (w *world) order(paid bool) string {
	w.t.Helper()
	w.n++
	now := time.Now()
	r := sale.Reservation{
		ID: fmt.Sprintf("reservation-%06d", w.n), Sale: w.sale.ID, Epoch: 1, User: fmt.Sprint("u", w.n), Slot: 1, Ticket: fmt.Sprint("t", w.n),
		At: now, PayBy: now.Add(time.Hour),
	}
	if _, err := w.l.CreateOrders(w.t.Context(), 1, []sale.Reservation{r}, now); err != nil {
		w.t.Fatal(err)
	}
	if paid {
		if _, err := w.l.Pay(w.t.Context(), sale.Payment{ID: fmt.Sprint("p", w.n), Reservation: r.ID, Amount: 100}, now); err != nil {
			w.t.Fatal(err)
		}
	}
	return r.ID
}

// wait lets virtual time pass.
func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (w *world) deliveries(f webhook.Filter) []webhook.Delivery {
	w.t.Helper()
	all, err := w.l.Webhooks().Deliveries(w.t.Context(), "shop", w.endpoint.ID, f)
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

func TestDelivery(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		defer w.start().Stop()
		w.order(true)
		wait(3 * time.Second)
		if got := w.receiver.types(); got != "order.reserved order.paid" {
			t.Errorf("received %s, want both events in order", got)
		}
		if got := w.deliveries(webhook.Filter{State: webhook.Delivered}); len(got) != 2 {
			t.Errorf("%d deliveries are delivered, want 2", len(got))
		}
	})
}

// TestRetries fails every attempt: they follow the schedule, and then the event is a dead letter,
// which holds the next event of its order and no other one.
func TestRetries(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		bad := w.order(true)
		w.receiver.reply = func(_ int, q request) reply {
			if q.subject == bad {
				return reply{status: 500, body: strings.Repeat("x", 5000)}
			}
			return reply{status: 200}
		}
		defer w.start().Stop()
		wait(time.Second)
		w.order(true)
		wait(10 * time.Second)
		if got := w.receiver.types(); strings.Count(got, "order.paid") != 1 || strings.Count(got, "order.reserved") < 3 {
			t.Fatalf("received %s, want the payment of the other order and a retry", got)
		}
		want := []time.Duration{
			5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
		}
		w.receiver.skip(time.Second)
		for range len(want) - 1 {
			next := w.deliveries(webhook.Filter{Subject: bad, Type: webhook.OrderReserved})[0]
			w.receiver.skip(next.Due.Sub(w.receiver.now()) - 10*time.Second)
			wait(15 * time.Second)
		}
		var at []time.Time
		for _, q := range w.receiver.requests() {
			if q.subject == bad {
				if q.typ != "order.reserved" {
					t.Fatalf("received %s behind a dead letter", q.typ)
				}
				at = append(at, q.at)
			}
		}
		if len(at) != len(want)+1 {
			t.Fatalf("%d attempts, want %d", len(at), len(want)+1)
		}
		for i, base := range want {
			got := at[i+1].Sub(at[i])
			if got < base*8/10 || got > base*12/10+3*time.Second { // it looks once a second
				t.Errorf("attempt %d after %v, want %v ± 20 %%", i+2, got, base)
			}
		}
		dead := w.deliveries(webhook.Filter{State: webhook.Dead})
		if len(dead) != 1 || dead[0].Subject != bad {
			t.Fatalf("dead letters %v, want one", dead)
		}
		_, attempts, err := w.l.Webhooks().Attempts(t.Context(), "shop", w.endpoint.ID, dead[0].Event)
		if err != nil || len(attempts) != 10 || attempts[0].Status != 500 || len(attempts[0].Response) != 1024 {
			t.Errorf("attempts %v, %v", attempts, err)
		}
		w.receiver.mu.Lock()
		w.receiver.reply = nil
		before := len(w.receiver.got)
		w.receiver.mu.Unlock()
		if err := w.l.Webhooks().Replay(t.Context(), "shop", w.endpoint.ID, dead[0].Event, w.receiver.now()); err != nil {
			t.Fatal(err)
		}
		wait(3 * time.Second)
		after := w.receiver.requests()[before:]
		if len(after) != 2 || after[0].id != dead[0].Event || after[1].typ != "order.paid" {
			t.Errorf("after the replay received %+v, want both events, the first one with its ID", after)
		}
	})
}

// TestReplies checks what each response of a receiver leads to.
func TestReplies(t *testing.T) {
	for _, c := range []struct {
		name     string
		reply    reply
		min, max time.Duration // until the second attempt
		status   int
		err      string
	}{
		{"Redirect", reply{status: 302, location: "https://elsewhere.example/"}, 4 * time.Second, 8 * time.Second, 302, ""},
		{"RetryAfter", reply{status: 429, retryAfter: "90"}, 90 * time.Second, 93 * time.Second, 429, ""},
		{"ShortRetryAfter", reply{status: 503, retryAfter: "1"}, 4 * time.Second, 8 * time.Second, 503, ""},
		{"RetryAfterDate", reply{status: 503, retryAfter: "Sat, 01 Jan 2000 01:00:00 GMT"}, 59*time.Minute + 57*time.Second, 61 * time.Minute, 503, ""},
		{"EndlessRetryAfter", reply{status: 503, retryAfter: "4000000000"}, 24 * time.Hour, 24*time.Hour + 3*time.Second, 503, ""},
		{"Slow", reply{status: 200, after: 20 * time.Second}, 19 * time.Second, 23 * time.Second, 0, "no complete response within 15s"},
		{"Refused", reply{err: errors.New("connection refused")}, 4 * time.Second, 8 * time.Second, 0, "connection refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.receiver.reply = func(n int, _ request) reply {
					if n == 1 {
						return c.reply
					}
					return reply{status: 200}
				}
				defer w.start().Stop()
				w.order(false)
				wait(2 * time.Second)
				if c.min > time.Minute {
					w.receiver.skip(c.min - 10*time.Second)
				}
				wait(30 * time.Second)
				got := w.receiver.requests()
				if len(got) != 2 || got[0].id != got[1].id {
					t.Fatalf("received %v, want the event twice", got)
				}
				if d := got[1].at.Sub(got[0].at); d < c.min || d > c.max {
					t.Errorf("second attempt after %v, want %v to %v", d, c.min, c.max)
				}
				_, attempts, err := w.l.Webhooks().Attempts(t.Context(), "shop", w.endpoint.ID, got[0].id)
				if err != nil || len(attempts) != 2 || attempts[1].Status != c.status || attempts[1].Error != c.err {
					t.Errorf("attempts %+v, %v, want status %d and error %q first", attempts, err, c.status, c.err)
				}
			})
		})
	}
}

// TestGone disables an endpoint that returns 410, and sends the rest after it is enabled.
func TestGone(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.receiver.reply = func(n int, _ request) reply {
			if n == 1 {
				return reply{status: 410}
			}
			return reply{status: 200}
		}
		w.order(true)
		defer w.start().Stop()
		wait(time.Hour)
		if got := w.receiver.types(); got != "order.reserved" {
			t.Fatalf("received %s, want one event", got)
		}
		if err := w.l.Webhooks().SetDisabled(t.Context(), "shop", w.endpoint.ID, ""); err != nil {
			t.Fatal(err)
		}
		w.receiver.mu.Lock()
		w.receiver.reply = nil
		w.receiver.mu.Unlock()
		wait(11 * time.Minute)
		if got := w.receiver.types(); got != "order.reserved order.reserved order.paid" {
			t.Errorf("received %s, want the rest", got)
		}
	})
}

// TestRotation sends with both secrets until the end of the rotation.
func TestRotation(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		next := signing.New().Text()
		if err := w.l.Webhooks().RotateSecret(t.Context(), "shop", w.endpoint.ID, next, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		w.receiver.secrets = append(w.receiver.secrets, next)
		defer w.start().Stop()
		w.order(false)
		wait(2 * time.Second)
		if got := w.receiver.types(); got != "order.reserved" {
			t.Fatalf("received %s, want an event that both secrets verify", got)
		}
		wait(time.Hour)
		w.receiver.mu.Lock()
		w.receiver.secrets = []string{next}
		w.receiver.mu.Unlock()
		w.order(false)
		wait(2 * time.Second)
		if got := w.receiver.types(); got != "order.reserved order.reserved" {
			t.Errorf("received %s, want an event that the new secret verifies", got)
		}
	})
}

// TestSlowReceiver has one endpoint that never responds: another one gets its events on time.
func TestSlowReceiver(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		slow, err := w.l.Webhooks().AddEndpoint(t.Context(), "shop", "https://slow.example/", signing.New().Text(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		fast := w.receiver
		d, err := webhook.New(webhook.Config{Store: w.l.Webhooks(), Client: &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "slow.example" {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return fast.RoundTrip(r)
		})}})
		if err != nil {
			t.Fatal(err)
		}
		d.Start()
		defer d.Stop()
		for range 100 {
			w.order(false)
		}
		wait(5 * time.Second)
		if got := len(fast.requests()); got != 100 {
			t.Errorf("the fast endpoint got %d events, want 100", got)
		}
		if got, err := w.l.Webhooks().Endpoints(t.Context(), "shop"); err != nil || got[0].Pending+got[1].Pending != 100 {
			t.Errorf("endpoints %+v, %v, want 100 pending events of %s", got, err, slow.ID)
		}
	})
}

type transport func(r *http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestStop aborts attempts in progress: they are sent again at once by the next process, and do
// not count.
func TestStop(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.receiver.reply = func(n int, _ request) reply {
			if n == 1 {
				return reply{status: 200, after: 14 * time.Second}
			}
			return reply{status: 200}
		}
		d := w.start()
		w.order(false)
		wait(2 * time.Second)
		begin := time.Now()
		d.Stop()
		if took := time.Since(begin); took > 0 {
			t.Errorf("Stop took %v", took)
		}
		defer w.start().Stop()
		wait(2 * time.Second)
		got := w.deliveries(webhook.Filter{})
		if len(got) != 1 || got[0].State != webhook.Delivered || got[0].Attempts != 1 || len(w.receiver.requests()) != 2 {
			t.Errorf("deliveries %+v after %d requests, want one delivered by the second", got, len(w.receiver.requests()))
		}
	})
}

// lossy is a store whose process is killed before it stores the first results.
type lossy struct {
	webhook.Store
	lost int
}

func (s *lossy) Finish(ctx context.Context, now time.Time, results []webhook.Result) error {
	if s.lost > 0 {
		s.lost--
		return sale.ErrUnavailable
	}
	return s.Store.Finish(ctx, now, results)
}

// TestLostResult loses the result of an attempt: the event is sent again with its ID after its
// lease, before the next event of the order.
func TestLostResult(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		d, err := webhook.New(webhook.Config{Store: &lossy{w.l.Webhooks(), 1}, Client: &http.Client{Transport: w.receiver}})
		if err != nil {
			t.Fatal(err)
		}
		d.Start()
		defer d.Stop()
		w.order(true)
		wait(29 * time.Second)
		if got := w.receiver.types(); got != "order.reserved" {
			t.Fatalf("received %s within the lease", got)
		}
		wait(5 * time.Second)
		got := w.receiver.requests()
		if w.receiver.types() != "order.reserved order.reserved order.paid" || got[0].id != got[1].id {
			t.Errorf("received %v, want the first event twice, then the second", got)
		}
	})
}

// TestMetrics gathers the metrics after a success, a failure and a dead letter.
func TestMetrics(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		registry := prometheus.NewRegistry()
		w.receiver.reply = func(n int, _ request) reply {
			if n == 1 {
				return reply{status: 500}
			}
			return reply{status: 200}
		}
		d, err := webhook.New(webhook.Config{Store: w.l.Webhooks(), Client: &http.Client{Transport: w.receiver}, Registry: registry})
		if err != nil {
			t.Fatal(err)
		}
		d.Start()
		defer d.Stop()
		w.order(false)
		wait(20 * time.Second)
		w.order(false)
		wait(2 * time.Second)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				name := strings.TrimPrefix(f.GetName(), "flashsale_webhook_")
				for _, l := range m.GetLabel() {
					name += " " + l.GetValue()
				}
				got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
		if got["attempts_total delivered"] != 1 || got["attempts_total refused"] != 2 || got["store_errors_total"] != 0 || len(got) != 10 {
			t.Errorf("metrics %v", got)
		}
	})
}
