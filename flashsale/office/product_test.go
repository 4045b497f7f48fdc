package office_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/catalogue"
	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/office"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/webtest"
	"github.com/floodweir/weir/flashsale/web"
	"github.com/floodweir/weir/memstore"
)

// owner is a MerchantService that knows the sales of one ledger.
type owner struct {
	sale.MerchantService
	l *ledger.Ledger
}

func (o owner) Sale(ctx context.Context, merchant, id string) (sale.Sale, error) {
	s, err := o.l.Sale(ctx, id)
	if err == nil && s.Merchant != merchant {
		err = sale.ErrNotFound
	}
	return s, err
}

// viewer is a BuyerService that shows every sale.
type viewer struct {
	sale.BuyerService
	draft string // a sale that is not public
}

func (v viewer) Limited(int) sale.BuyerService { return v }

func (v viewer) List(context.Context) ([]sale.View, error) { return nil, nil }

func (v viewer) View(_ context.Context, id string) (sale.View, error) {
	if id == v.draft {
		return sale.View{}, sale.ErrNotFound
	}
	return sale.View{}, nil
}

// TestProducts writes a product in the office and looks at it in the shop.
func TestProducts(t *testing.T) {
	l, err := ledger.Open(t.Context(), "sqlite::memory:", ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	now := webtest.Start()
	ids := map[string]string{}
	for _, merchant := range []string{"ann", "bob"} {
		s, err := l.Create(t.Context(), merchant, "", sale.Draft{SKU: "a", Title: "A", Price: 1, Stock: 1, StartsAt: now, EndsAt: now.Add(time.Hour)}.WithDefaults(), now)
		if err != nil {
			t.Fatal(err)
		}
		ids[merchant] = s.ID
	}
	o := openOffice(t, func(c *office.Config) {
		c.Service = owner{l: l}
		c.Products = &catalogue.Copier{Store: l.Products(), Clock: webtest.Start}
	})
	path := "/api/sales/" + ids["ann"]
	want := func(w *httptest.ResponseRecorder, status int, text string) {
		t.Helper()
		if w.Code != status || !strings.Contains(w.Body.String(), text) {
			t.Errorf("%d %s, want %d with %s", w.Code, w.Body, status, text)
		}
	}
	want(o.ask("GET", path+"/product", ""), 200, `"list_price":0`)
	want(o.ask("PUT", path+"/product", `{"title_zh":"茶","title_en":"Tea","description_en":"Two\nlines","list_price":200}`), 200, `"zh":"茶"`)
	want(o.ask("PUT", path+"/product", `{"list_price":-1}`), 400, "list_price")
	want(o.ask("PUT", path+"/product", `{"title_en":"a\u0007"}`), 400, "title_en")
	want(o.ask("PUT", "/api/sales/"+ids["bob"]+"/product", `{"title_en":"mine"}`), 404, "not_found")
	variant := func(sku, zh, price string) string {
		return fmt.Sprintf(`{"sku":%q,"name_zh":%q,"name_en":"Tin","price":%s}`, sku, zh, price)
	}
	want(o.ask("PUT", path+"/variants", variant("a-2", "罐", "300")), 200, `"variants":[{"sku":"a-2","name":{"zh":"罐","en":"Tin"},"price":300}]`)
	want(o.ask("PUT", path+"/variants", variant("a-3", "盒", "400")), 200, `{"sku":"a-3"`)
	want(o.ask("PUT", path+"/variants", variant("a-2", "铁罐", "350")), 200, `"variants":[{"sku":"a-2","name":{"zh":"铁罐","en":"Tin"},"price":350},{"sku":"a-3"`)
	want(o.ask("PUT", path+"/variants", variant("a b", "x", "1")), 400, `"errors":[{"field":"sku"`)
	want(o.ask("PUT", path+"/variants", variant("a-4", "x", "-1")), 400, `"field":"price","detail":"got -1, want 0 to 1000000000000","code":"range","min":0,"max":1000000000000}`)
	want(o.ask("PUT", path+"/variants", variant("a-4", strings.Repeat("x", 121), "1")), 400, `"field":"name_zh"`)
	want(o.ask("PUT", "/api/sales/"+ids["bob"]+"/variants", variant("a-2", "x", "1")), 404, "not_found")
	want(o.ask("POST", path+"/variants/remove", `{"sku":"a-3"}`), 200, `"price":350}]`)
	want(o.ask("POST", path+"/variants/remove", `{"sku":"a-3"}`), 404, "not_found")
	want(o.ask("PUT", path+"/product", `{"title_zh":"茶","title_en":"Tea","description_en":"Two\nlines","list_price":200}`), 200, `"sku":"a-2"`)
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewRGBA(image.Rect(0, 0, 400, 200))); err != nil {
		t.Fatal(err)
	}
	raw := func(r *http.Request) { r.Header.Set("Content-Type", "application/octet-stream") }
	made := o.ask("POST", path+"/pictures?alt_en=A+cup", b.String(), raw)
	want(made, 200, `"alt":{"zh":"","en":"A cup"}`)
	want(o.ask("POST", path+"/pictures", "<html>", raw), 400, "image: got text/html")
	want(o.ask("POST", path+"/pictures", strings.Repeat("x", catalogue.MaxBytes+1), raw), 413, "image")
	want(o.ask("POST", "/api/sales/"+ids["bob"]+"/pictures", b.String(), raw), 404, "not_found")
	want(o.ask("POST", path+"/pictures", b.String(), func(r *http.Request) { r.Header.Del("Flashsale-CSRF") }), 403, "csrf")
	want(o.ask("POST", path+"/pictures", b.String(), func(r *http.Request) { r.Header.Del("Cookie") }), 401, "no_session")
	var shown catalogue.Shown
	if err := json.Unmarshal(made.Body.Bytes(), &shown); err != nil || len(shown.Pictures) != 1 || shown.Title.EN != "Tea" {
		t.Fatal(shown, err)
	}
	file := "/pictures/" + shown.Pictures[0].Hash
	small := o.ask("GET", path+file, "")
	if _, err := jpeg.Decode(small.Body); small.Code != 200 || small.Header().Get("Content-Type") != "image/jpeg" || err != nil {
		t.Errorf("the picture: %d %v, %v", small.Code, small.Header(), err)
	}
	want(o.ask("GET", path+"/pictures/"+strings.Repeat("0", 32), ""), 404, "not_found")
	want(o.ask("GET", "/api/sales/"+ids["bob"]+file, ""), 404, "not_found")
	// The log has every change, and no entry for what changed nothing.
	entries, err := l.AuditLog(t.Context(), ids["ann"])
	if err != nil {
		t.Fatal(err)
	}
	var log []string
	for _, e := range slices.Backward(entries) {
		if e.Actor != "ann" && e.Actor != "ann/owner" {
			t.Errorf("entry %+v: want an account of the merchant", e)
		}
		log = append(log, e.Event)
	}
	if got, want := strings.Join(log, "\n"), `created
edited product: title_zh "" → "茶", title_en "" → "Tea", description_en "" → "Two\nlines", list_price 0 → 200
edited product: added variant "a-2" for 300
edited product: added variant "a-3" for 400
edited product: variant "a-2" name_zh "罐" → "铁罐", variant "a-2" price 300 → 350
edited product: removed variant "a-3"
edited product: added picture `+shown.Pictures[0].Hash[:12]; got != want {
		t.Errorf("the audit log is\n%s\nwant\n%s", got, want)
	}

	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	lay, err := layers.New(layers.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := pass.NewKeys(make([]byte, pass.SecretSize))
	if err != nil {
		t.Fatal(err)
	}
	buyers, err := web.NewShop(web.ShopConfig{Service: viewer{draft: ids["bob"]}, Keys: keys, Layers: lay, Mock: true, Products: l.Products()})
	if err != nil {
		t.Fatal(err)
	}
	defer buyers.Close()
	get := func(path, tag string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		buyers.ServeHTTP(w, r)
		return w
	}
	first := get(path+"/product", "")
	want(first, 200, `"en":"Two\nlines"`)
	want(get(path+"/product", first.Header().Get("ETag")), 304, "")
	want(get("/api/sales/"+ids["bob"]+"/product", ""), 404, "not_found")
	hash := shown.Pictures[0].Hash
	for range 2 { // the second one from memory
		w := get("/images/"+hash+"-375.jpg", "")
		if want(w, 200, "\xff\xd8\xff"); w.Header().Get("Content-Type") != "image/jpeg" || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("picture: %v", w.Header())
		}
	}
	for _, name := range []string{hash + "-376.jpg", hash + ".jpg", hash + "-0375.jpg", hash + "-375.png", "..-375.jpg", strings.ToUpper(hash) + "-375.jpg"} {
		want(get("/images/"+name, ""), 404, "")
	}
	want(o.ask("POST", path+"/pictures/"+hash+"/remove", "{}"), 200, `"pictures":[]`)
	want(o.ask("POST", path+"/pictures/"+hash+"/remove", "{}"), 404, "not_found")
	if _, err := l.Products().PictureSize(t.Context(), hash, 375); !errors.Is(err, sale.ErrNotFound) {
		t.Errorf("a removed picture: %v, want that it is not stored", err)
	}
	for range catalogue.MaxImages {
		want(o.ask("POST", path+"/pictures", b.String(), raw), 200, hash)
	}
	want(o.ask("POST", path+"/pictures", b.String(), raw), 400, "images: got 7, want up to 6")
}
