package front_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/flashsale/front"
	"github.com/floodweir/weir/flashsale/sale"
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

// TestTicketsComeBack takes every ticket of a small sale and buys nothing: others are blocked
// for the lifetime of a token, not for the time to pay.
func TestTicketsComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sale.Sale{ID: "s1", Draft: sale.Draft{Stock: 5, Headroom: 2, Queue: sale.Direct, TokenFor: 30 * time.Second, PayWithin: 15 * time.Minute}}
		c := config()
		c.Address, c.Sales = "off", []front.Sale{front.NewSale(&s)}
		h := behind(t, c)
		for i := range 3 {
			if i > 0 {
				time.Sleep(s.TokenFor / 2)
				if got := through(h, 100, "POST", "/api/sales/s1/ticket"); got != 0 {
					t.Errorf("%v after the start: %d tickets, while all are out", time.Duration(i)*s.TokenFor-s.TokenFor/2, got)
				}
				time.Sleep(s.TokenFor/2 + s.TokenFor/10)
			}
			if got := through(h, 100, "POST", "/api/sales/s1/ticket"); got != 10 {
				t.Errorf("%v after the start: %d tickets, want 10", time.Duration(i)*s.TokenFor, got)
			}
		}
	})
}

// TestPagesHaveRoom checks that an address has as much room for pages as the shop's own limits give it,
// and uses none of it for calls.
func TestPagesHaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config()
		c.Sales = nil
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
