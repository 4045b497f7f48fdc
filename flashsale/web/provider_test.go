package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/webtest"
)

// paying is a desk whose payments go to taken.
func paying(taken func(receipt, payment string, amount int64) (sale.PayResult, error)) *desk {
	d := selling()
	d.pay = taken
	d.order = func(user, receipt string) (sale.Receipt, error) {
		if strings.HasPrefix(receipt, "of"+user) {
			v := webtest.View()
			return sale.Receipt{Receipt: receipt, Sale: v.Sale, State: sale.PendingPay, Quantity: 3, Price: 5997}, nil
		}
		return sale.Receipt{}, sale.ErrNotFound
	}
	return d
}

func TestTheProviderCallsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var calls []string
		began := time.Now()
		fails := 2
		s := open(t, paying(func(receipt, payment string, amount int64) (sale.PayResult, error) {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, fmt.Sprintf("%s %s %d after %v", receipt, payment, amount, time.Since(began)))
			if fails > 0 {
				fails--
				return sale.PayResult{}, fmt.Errorf("pay: %w", sale.ErrUnavailable)
			}
			return sale.PayResult{}, nil
		}), layers.Config{Policies: wide()})
		if w := s.ask("POST", "/api/orders/ofu/pay", "u", `{"payment":"p-1","after_ms":2000}`); w.Code != http.StatusAccepted {
			t.Fatal(webtest.Summary(w))
		}
		synctest.Wait()
		mu.Lock()
		if len(calls) != 0 {
			t.Errorf("called back at once: %v", calls)
		}
		mu.Unlock()
		time.Sleep(10 * time.Second) // the bubble's clock
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if want := "[ofu mock-p-1 5997 after 2s ofu mock-p-1 5997 after 2.5s ofu mock-p-1 5997 after 3s]"; fmt.Sprint(calls) != want {
			t.Errorf("calls %v, want %v", calls, want)
		}
		if got := webtest.Summary(s.ask("POST", "/api/orders/ofv/pay", "u", `{"after_ms":1}`)); got != "404  not_found" {
			t.Errorf("another's order: %q", got)
		}
		_ = s.Close()
	})
}

func TestTheProviderIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var paid atomic.Int64
		s := open(t, paying(func(string, string, int64) (sale.PayResult, error) {
			paid.Add(1)
			return sale.PayResult{}, nil
		}), layers.Config{Policies: wide()})
		accepted := 0
		for i := range 30 {
			if s.ask("POST", "/api/orders/ofu/pay", "u", `{"after_ms":600000}`).Code == http.StatusAccepted {
				accepted++
			} else if i < 20 {
				t.Fatal("refused too early")
			}
		}
		for i := range 600 {
			user := fmt.Sprint("v", i)
			for range 20 {
				if w := s.ask("POST", "/api/orders/of"+user+"/pay", user, `{"after_ms":600000}`); w.Code == http.StatusAccepted {
					accepted++
				} else if got := webtest.Summary(w); got != "429 L4 overloaded" || w.Header().Get("Retry-After") == "" {
					t.Fatalf("one too many: %q", got)
				}
			}
		}
		if accepted != 10_000 {
			t.Errorf("%d payments wait, want 10000", accepted)
		}
		time.Sleep(11 * time.Minute) // the bubble's clock
		synctest.Wait()
		if n := paid.Load(); n != 10_000 {
			t.Errorf("%d called back, want 10000", n)
		}
		if s.ask("POST", "/api/orders/ofu/pay", "u", `{"after_ms":600000}`).Code != http.StatusAccepted {
			t.Error("no room again after the calls")
		}
		_ = s.Close()
		synctest.Wait()
		if n := paid.Load(); n != 10_000 {
			t.Errorf("%d called back after the end", n-10_000)
		}
	})
}

// TestPayReadsTheOrderForItsAddress checks that a payment reads the order only if the sale requires
// an address, and that the receipt names the buyer.
func TestPayReadsTheOrderForItsAddress(t *testing.T) {
	read, rule := 0, sale.NoAddress
	d := paying(func(_, _ string, amount int64) (sale.PayResult, error) {
		if amount != 2*1999 {
			t.Errorf("amount = %d, want that of two units of the sale, 2 × 1999", amount)
		}
		return sale.PayResult{Order: sale.Order{State: sale.Paid}}, nil
	})
	of := func(id string) sale.Sale {
		return sale.Sale{ID: id, Draft: sale.Draft{Price: 1999, Address: rule}}
	}
	d.view = func(id string) (sale.View, error) { return sale.View{Sale: of(id)}, nil }
	d.order = func(user, receipt string) (sale.Receipt, error) {
		if read++; user != "u" {
			return sale.Receipt{}, sale.ErrNotFound
		}
		return sale.Receipt{Receipt: receipt, Sale: of("s1"), State: sale.PendingPay, Quantity: 2, Price: 2 * 1999}, nil
	}
	s := open(t, d, layers.Config{Policies: wide()})
	path := "/api/orders/" + s.keys.Receipt(sale.Reservation{ID: "0123456789abcdef0", Sale: "s1", Epoch: 1, User: "u", Slot: 1, At: s.now, PayBy: s.now.Add(time.Minute), Quantity: 2}) + "/pay"
	for _, c := range []struct {
		user string
		rule sale.AddressRule
		want string
		read int
	}{
		{"u", sale.NoAddress, "200", 0}, {"u", sale.AddressOptional, "200", 0},
		{"u", sale.AddressRequired, "400", 1},
		{"v", sale.NoAddress, "404", 1}, // of another user
	} {
		read, rule = 0, c.rule
		if got := webtest.Summary(s.ask("POST", path, c.user, "")); !strings.HasPrefix(got, c.want) || read != c.read {
			t.Errorf("user %s, address %q: %q with %d reads, want %s with %d", c.user, c.rule, got, read, c.want, c.read)
		}
	}
}
