package front_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/flashsale/front"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/weirfile"
)

// behind is a shop that says yes, behind the policies of a gateway.
func behind(t *testing.T, c front.Config) http.Handler {
	t.Helper()
	text, err := c.Gateway()
	if err != nil {
		t.Fatal(err)
	}
	f, err := weirfile.Parse("gateway", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	m, err := httplimit.New(store, f.Policies, httplimit.Config{Options: enforce.Options{Local: store}})
	if err != nil {
		t.Fatal(err)
	}
	return m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
}

// through counts how many of n requests come through.
func through(h http.Handler, n int, method, path string) (came int) {
	for i := range n {
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("Cookie", fmt.Sprint("fs_session=s", i))
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code == http.StatusCreated {
			came++
		}
	}
	return came
}

// TestSalesHaveLimitsOfTheirOwn checks that a flood of one sale leaves others usable, which the
// configuration does not name, and that polls count too.
func TestSalesHaveLimitsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config()
		c.Address, c.Tickets = "off", "1/s burst 10"
		h := behind(t, c)
		for _, x := range []struct {
			method, path string
			want         int
		}{
			{"POST", "/api/sales/s1/ticket", 10}, {"POST", "/api/sales/s1/ticket", 0}, {"POST", "/api/sales/S1//ticket/", 0}, {"GET", "/api/sales/s1/ticket", 0},
			{"GET", "/api/sales/s2/ticket", 10}, {"POST", "/api/sales/s2/ticket", 0}, {"GET", "/api/sales/s1", 100}, {"POST", "/api/sales/s1/orders", 100},
		} {
			if got := through(h, 100, x.method, x.path); got != x.want {
				t.Errorf("%s %s: %d of 100 came through, want %d", x.method, x.path, got, x.want)
			}
		}
	})
}

// TestKillSwitch checks which changes the kill switch refuses, for all sales and for some.
func TestKillSwitch(t *testing.T) {
	for _, x := range []struct {
		killed bool
		sales  []string
		want   string // the sales for which it is on
	}{{false, nil, ""}, {true, nil, "s1 s2"}, {false, []string{"s2"}, "s2"}, {true, []string{"s2"}, "s1 s2"}} {
		c := config()
		c.Address, c.Killed, c.KilledSales = "off", x.killed, x.sales
		h := behind(t, c)
		for _, id := range []string{"s1", "s2"} {
			open := map[bool]int{false: 1}[strings.Contains(x.want, id)]
			if tickets, orders, views := through(h, 1, "POST", "/api/sales/"+id+"/ticket"), through(h, 1, "POST", "/api/sales/"+id+"/orders"), through(h, 1, "GET", "/api/sales/"+id); tickets != open || orders != open || views != 1 {
				t.Errorf("killed %v %v: %s: %d tickets, %d orders, %d views", x.killed, x.sales, id, tickets, orders, views)
			}
		}
	}
}

// TestNotificationsHaveNoLimit checks that notifications of payment providers, which come from
// one address, have no limit, and that other calls cannot pretend to be one.
func TestNotificationsHaveNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := behind(t, config())
		for _, x := range []struct {
			path string
			want int
		}{{"/api/payments/notify/default", 2000}, {"/api/payments/notify/%2e%2e/../time", 40}, {"/api/payments/notify/../../time", 0}} {
			if got := through(h, 2000, "POST", x.path); got != x.want {
				t.Errorf("%s: %d of 2000 came through, want %d", x.path, got, x.want)
			}
		}
	})
}

// TestPagesHaveRoom checks that an address has as much room for pages as the shop's own limits give it,
// and uses none of it for calls.
func TestPagesHaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config()
		h := behind(t, c)
		for _, x := range []struct {
			path string
			want int
		}{{"/static/style.css", 400}, {"/api/time", 40}, {"/", 0}, {"/api/sales", 0}} {
			if got := through(h, 1000, "GET", x.path); got != x.want {
				t.Errorf("%s: %d of 1000 came through, want %d", x.path, got, x.want)
			}
		}
		c.Address = "off"
		if got := through(behind(t, c), 1000, "GET", "/"); got != 1000 {
			t.Errorf("without limits of an address %d pages of 1000 came through", got)
		}
	})
}
