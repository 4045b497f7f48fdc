package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/catalogue"
	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/webtest"
	"github.com/floodweir/weir/flashsale/web"
	"github.com/floodweir/weir/memstore"
)

// A catalog is a store of products that counts what is read.
type catalog struct {
	catalogue.Store // nil
	shown           map[string]catalogue.Shown
	reads           atomic.Int64
	down            atomic.Bool
	during          func() // called by each read, if not nil
}

func (c *catalog) Product(_ context.Context, id string) (catalogue.Shown, error) {
	c.reads.Add(1)
	if c.during != nil {
		c.during()
	}
	if c.down.Load() {
		return catalogue.Shown{}, sale.ErrUnavailable
	}
	s, ok := c.shown[id]
	if !ok {
		return s, sale.ErrNotFound
	}
	return s, nil
}

// A window is a shop with products and a clock of its own.
type window struct {
	*web.Shop
	*catalog
	desk *desk
	now  time.Time
}

func newWindow(t *testing.T, views ...sale.View) *window {
	t.Helper()
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	l, err := layers.New(layers.Config{Store: store, Policies: wide()})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := pass.NewKeys(make([]byte, pass.SecretSize))
	if err != nil {
		t.Fatal(err)
	}
	w := &window{catalog: &catalog{shown: map[string]catalogue.Shown{}}, now: webtest.Start()}
	w.desk = &desk{list: views, view: func(id string) (sale.View, error) {
		for _, v := range w.desk.list {
			if v.Sale.ID == id {
				return v, nil
			}
		}
		return sale.View{}, sale.ErrNotFound
	}}
	w.Shop, err = web.NewShop(web.ShopConfig{Service: w.desk, Keys: keys, Layers: l, Mock: true, Products: w.catalog, Clock: func() time.Time { return w.now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func (w *window) get(path, tag string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	r.Header.Set("If-None-Match", tag)
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	return rec
}

// offer is a view of a sale for these tests.
func offer(id, merchant, sku string, price int64, phase sale.Phase) sale.View {
	v := webtest.View()
	v.Sale.ID, v.Sale.Merchant, v.Sale.SKU, v.Sale.Price, v.Phase = id, merchant, sku, price, phase
	return v
}

// TestVariants checks that each variant leads to the sale of the same merchant that has units.
func TestVariants(t *testing.T) {
	w := newWindow(t, offer("a", "m", "tea-1", 100, sale.Open), offer("other", "n", "tea-2", 1, sale.Open), offer("over", "m", "tea-2", 150, sale.SoldOut),
		offer("b", "m", "tea-2", 200, sale.Upcoming), offer("c", "m", "tea-3", 300, sale.PhaseEnded))
	w.shown["a"] = catalogue.Shown{Title: catalogue.Text{EN: "Tea"}, Variants: []catalogue.Variant{
		{SKU: "tea-1", Price: 1000}, {SKU: "tea-2", Name: catalogue.Text{EN: "Two"}, Price: 2000}, {SKU: "tea-3", Price: 3000}, {SKU: "tea-4", Price: 4000}}}
	rec := w.get("/api/sales/a/product", "")
	var got struct {
		Title    catalogue.Text
		Variants []struct {
			SKU, Sale, Phase string
			Price            int64
			Name             catalogue.Text
		}
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || got.Title.EN != "Tea" || len(got.Variants) != 4 {
		t.Fatalf("%d %s: %v", rec.Code, rec.Body, err)
	}
	for i, want := range []struct {
		sale, phase string
		price       int64
	}{{"a", "open", 100}, {"b", "upcoming", 200}, {"c", "ended", 300}, {"", "", 4000}} {
		if v := got.Variants[i]; v.Sale != want.sale || v.Phase != want.phase || v.Price != want.price {
			t.Errorf("variant %d is %+v, want %+v", i, v, want)
		}
	}
	if again := w.get("/api/sales/a/product", rec.Header().Get("ETag")); again.Code != http.StatusNotModified || w.reads.Load() != 1 {
		t.Errorf("again: %d, %d reads of the store, want 304 and 1", again.Code, w.reads.Load())
	}
	if rec := w.get("/api/sales/b/product", ""); rec.Code != http.StatusOK {
		t.Errorf("without a product: %d %s", rec.Code, rec.Body)
	}
	w.down.Store(true)
	w.now = w.now.Add(time.Hour)
	if rec := w.get("/api/sales/a/product", ""); rec.Code != http.StatusServiceUnavailable {
		t.Errorf("without a store: %d", rec.Code)
	}
	if _, err := w.Product(t.Context(), "a"); !errors.Is(err, sale.ErrUnavailable) {
		t.Error(err)
	}
}

// TestListOfSales checks that the list has the products of its sales, each read from the store once,
// and that it outlives a store that is down.
func TestListOfSales(t *testing.T) {
	w := newWindow(t, offer("a", "m", "tea-1", 100, sale.Open), offer("b", "m", "tea-2", 200, sale.Upcoming))
	w.shown["a"] = catalogue.Shown{Title: catalogue.Text{EN: "Tea"}, ListPrice: 900, Pictures: []catalogue.Picture{{Hash: "1"}, {Hash: "2"}}}
	see := func(want string) {
		t.Helper()
		rec := w.get("/api/sales", "")
		var got struct {
			Sales []struct {
				ID      string
				Product struct {
					Title   catalogue.Text
					Price   int64 `json:"list_price"`
					Picture catalogue.Picture
				}
			}
		}
		err := json.Unmarshal(rec.Body.Bytes(), &got)
		text := ""
		for _, s := range got.Sales {
			text += fmt.Sprint(s.ID, " ", s.Product.Title.EN, s.Product.Price, s.Product.Picture.Hash, ";")
		}
		if err != nil || text != want {
			t.Errorf("%d %s, %v: %q, want %q", rec.Code, rec.Body, err, text, want)
		}
	}
	const want = "a Tea9001;b 0;"
	for range 3 {
		see(want)
	}
	if w.reads.Load() != 2 {
		t.Errorf("%d reads of the store, want one for each sale", w.reads.Load())
	}
	w.now = w.now.Add(time.Hour)
	w.during = func() { see(want) } // from memory, while another request reads
	see(want)
	if w.reads.Load() != 4 {
		t.Errorf("%d reads of the store, want one for each sale", w.reads.Load()-2)
	}
	w.now, w.during = w.now.Add(time.Hour), nil
	w.down.Store(true)
	see(want)
	if w.reads.Load() != 5 {
		t.Errorf("%d reads of the store, want one of a store that is down", w.reads.Load()-4)
	}
}

// TestCampaign checks that a campaign is built once a second from memory, with the products of its
// sales, and that it outlives a store that is down.
func TestCampaign(t *testing.T) {
	in := func(v sale.View) sale.View { v.Sale.Campaign = "spring"; return v }
	w := newWindow(t, in(offer("a", "m", "tea-1", 100, sale.Open)), offer("x", "m", "tea-9", 100, sale.Open), in(offer("b", "m", "tea-2", 200, sale.Upcoming)))
	w.shown["a"] = catalogue.Shown{Title: catalogue.Text{EN: "Tea"}, ListPrice: 900, Variants: []catalogue.Variant{{SKU: "tea-0"}, {SKU: "tea-1", Name: catalogue.Text{EN: "100 g"}}}, Pictures: []catalogue.Picture{{Hash: "1"}, {Hash: "2"}}}
	see := func(want string) *httptest.ResponseRecorder {
		t.Helper()
		rec := w.get("/api/campaigns/spring", "")
		var got struct {
			Sales []struct {
				ID      string
				Product struct {
					Title   catalogue.Text
					Variant catalogue.Text
					Price   int64 `json:"list_price"`
					Picture catalogue.Picture
				}
			}
		}
		err := json.Unmarshal(rec.Body.Bytes(), &got)
		text := ""
		for _, s := range got.Sales {
			text += fmt.Sprint(s.ID, s.Product.Title.EN, s.Product.Variant.EN, s.Product.Price, s.Product.Picture.Hash, " ")
		}
		if err != nil || text != want {
			t.Errorf("%d %s, %v: %q, want %q", rec.Code, rec.Body, err, text, want)
		}
		return rec
	}
	first := see("aTea100 g9001 b0 ")
	for range 20 {
		see("aTea100 g9001 b0 ")
	}
	if w.reads.Load() != 2 {
		t.Errorf("%d reads of the store, want one for each sale", w.reads.Load())
	}
	w.now = w.now.Add(900 * time.Millisecond)
	w.desk.list = append(w.desk.list, in(offer("c", "m", "tea-3", 300, sale.Open)))
	see("aTea100 g9001 b0 ") // from memory
	w.now = w.now.Add(200 * time.Millisecond)
	w.down.Store(true)
	see("aTea100 g9001 b0 c0 ")
	w.down.Store(false)
	w.now = w.now.Add(2 * time.Second)
	w.shown["c"] = catalogue.Shown{Title: catalogue.Text{EN: "New"}}
	later := see("aTea100 g9001 b0 cNew0 ")
	if a, b := first.Header().Get("ETag"), later.Header().Get("ETag"); a == "" || a == b {
		t.Errorf("ETag %q, and %q after a change", a, b)
	}
	w.now = w.now.Add(time.Hour)
	w.down.Store(true)
	again := see("aTea100 g9001 b0 cNew0 ")
	if a, b := again.Header().Get("ETag"), later.Header().Get("ETag"); a != b {
		t.Errorf("ETag %q and %q of the same content", b, a)
	}
	if rec := w.get("/api/campaigns/summer", ""); rec.Code != http.StatusNotFound {
		t.Errorf("an unknown campaign: %d", rec.Code)
	}
}
