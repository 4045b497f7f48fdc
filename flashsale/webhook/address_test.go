package webhook_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/signing"
	"github.com/floodweir/weir/flashsale/webhook"
)

// TestAddresses sends to a server on this machine: only with its network allowed, also if a name
// resolves to it.
func TestAddresses(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	url := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	for _, c := range []struct {
		name    string
		allowed []netip.Prefix
		state   webhook.State
		want    int64
	}{
		{"Private", nil, webhook.Pending, 0},
		{"Allowed", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}, webhook.Delivered, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			requests.Store(0)
			ctx := t.Context()
			l, err := ledger.Open(ctx, "sqlite::memory:", ledger.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if err := l.AddMerchant(ctx, "shop", "hash"); err != nil {
				t.Fatal(err)
			}
			now := time.Now()
			e, err := l.Webhooks().AddEndpoint(ctx, "shop", url, signing.New().Text(), now)
			if err != nil {
				t.Fatal(err)
			}
			s, err := l.Create(ctx, "shop", "", sale.Draft{SKU: "a", Title: "A", Price: 1, Stock: 1, StartsAt: now, EndsAt: now.Add(time.Hour)}.WithDefaults(), now)
			if err == nil {
				_, err = l.SetState(ctx, "shop", s.ID, sale.Exposed, "", now, sale.Drafted)
			}
			if err == nil {
				_, err = l.SetState(ctx, "shop", s.ID, sale.Ended, sale.Killed, now, sale.Exposed)
			}
			if err != nil {
				t.Fatal(err)
			}
			d, err := webhook.New(webhook.Config{Store: l.Webhooks(), Networks: c.allowed})
			if err != nil {
				t.Fatal(err)
			}
			d.Start()
			defer d.Stop()
			var attempts []webhook.Attempt
			var x webhook.Delivery
			for tick := time.NewTicker(20 * time.Millisecond); len(attempts) == 0; <-tick.C {
				all, err := l.Webhooks().Deliveries(ctx, "shop", e.ID, webhook.Filter{})
				if err != nil || len(all) != 1 {
					t.Fatal(all, err)
				}
				if x, attempts, err = l.Webhooks().Attempts(ctx, "shop", e.ID, all[0].Event); err != nil {
					t.Fatal(err)
				}
			}
			if x.State != c.state || requests.Load() != c.want {
				t.Errorf("delivery is %s after %d requests, want %s after %d", x.State, requests.Load(), c.state, c.want)
			}
			if c.want == 0 && !strings.HasSuffix(attempts[0].Error, "is not public") {
				t.Errorf("error %q, want that the address is not public", attempts[0].Error)
			}
		})
	}
}
