package flashsale_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/flashsale/child"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/signing"
	"github.com/floodweir/weir/flashsale/verify/webhooktest"
	"github.com/floodweir/weir/flashsale/webhook"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// TestPostgresWebhooks runs the conformance suite of the outbox on a real server.
func TestPostgresWebhooks(t *testing.T) {
	t.Parallel()
	empty := eachEmpty(t)
	webhooktest.Run(t, func(t *testing.T) webhooktest.Ledger { return empty(t) })
}

// hookReceiver is the server of a merchant. It fails every fourth event once, after it has stored
// it.
type hookReceiver struct {
	t       *testing.T
	hook    *standardwebhooks.Webhook
	mu      sync.Mutex
	count   map[string]int      // requests by event
	events  map[string][]string // types by reservation, in order, with repetitions
	arrived chan struct{}
}

func (h *hookReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = h.hook.VerifyIgnoringTimestamp(body, r.Header) // a test moves the clock of the sender
	}
	var p struct {
		Type string
		Data struct{ Reservation string }
	}
	if err == nil {
		err = json.Unmarshal(body, &p)
	}
	if err != nil {
		h.t.Errorf("webhook %s: %v", body, err)
		return
	}
	id := r.Header.Get("webhook-id")
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count[id]++
	h.events[p.Data.Reservation] = append(h.events[p.Data.Reservation], p.Type)
	h.arrived <- struct{}{}
	if id[len(id)-1]%4 == 0 && h.count[id] == 1 {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// TestWebhooksOfProcesses has two processes that deliver from one ledger, and kills one: each
// event of each order arrives, in order.
func TestWebhooksOfProcesses(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t, &postgres)
	l := openPostgres(t, dsn, ledger.Config{})
	ctx, orders := t.Context(), 60
	s := stockedLedger(t, l, int64(orders+1))
	if _, err := l.SetState(ctx, "shop", s.ID, sale.Ended, sale.ByMerchant, postgresStart, sale.Exposed); err != nil {
		t.Fatal(err) // the processes leave it alone
	}
	secret := signing.New().Text()
	hook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	h := &hookReceiver{t: t, hook: hook, count: map[string]int{}, events: map[string][]string{}, arrived: make(chan struct{}, 10*orders)}
	server := httptest.NewServer(h)
	defer server.Close()
	if err := l.AddMerchant(ctx, "shop", "hash"); err != nil {
		t.Fatal(err)
	}
	e, err := l.Webhooks().AddEndpoint(ctx, "shop", server.URL, secret, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	config := sharedConfig(t, dsn, "redis://"+redistest.Start(t).Addr)
	config.Shop, config.Office, config.WebhookNetworks = "127.0.0.1:0", "127.0.0.1:0", []string{"127.0.0.1"}
	var processes [2]*shopProcess
	for i := range processes {
		if processes[i], err = startChild(t, child.Order{Config: config, Ahead: 1}); err != nil {
			t.Fatal(err)
		}
	}
	rs := someReservations(s, orders)
	now := time.Now()
	for i := range rs {
		rs[i].At, rs[i].PayBy = now, now.Add(time.Hour)
	}
	for batch := range slices.Chunk(rs, 20) {
		if _, err := l.CreateOrders(ctx, 1, batch, now); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range rs {
		if _, err := l.Pay(ctx, sale.Payment{ID: "p-" + r.ID, Reservation: r.ID, Amount: 9900}, now); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		<-h.arrived
	}
	processes[0].Kill()
	var open webhook.Counts
	for tries := 0; ; tries++ {
		if open, err = l.Webhooks().Counts(ctx); err != nil {
			t.Fatal(err)
		}
		if open.Pending == 0 {
			break
		}
		if tries == 200 {
			t.Fatalf("after %d looks %+v, %v", tries, open, h.events)
		}
		// The leases of the killed process and the waits of failed events end sooner.
		if _, err := processes[1].Do("clock 5s"); err != nil {
			t.Fatal(err)
		}
		<-time.After(300 * time.Millisecond)
	}
	if open.Dead != 0 {
		t.Errorf("%d dead letters", open.Dead)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	repeated := 0
	for _, r := range rs {
		got := slices.Compact(slices.Clone(h.events[r.ID]))
		if fmt.Sprint(got) != "[order.reserved order.paid]" {
			t.Errorf("order %s: received %v, want both events in order", r.ID, h.events[r.ID])
		}
		repeated += len(h.events[r.ID]) - 2
	}
	t.Logf("%d events, %d repeated", 2*orders, repeated)
	if all, err := l.Webhooks().Deliveries(ctx, "shop", e.ID, webhook.Filter{State: webhook.Delivered}); err != nil || len(all) != 100 {
		t.Errorf("%d delivered on the first page, %v", len(all), err)
	}
	if err := processes[1].Stop(); err != nil {
		t.Error(err)
	}
}
