package catalogue_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/catalogue"
	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/webhook"
)

func pictureOf(t *testing.T, w, h int) []byte {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for x := range w {
		m.Set(x, h/2, color.RGBA{R: uint8(x), A: 255})
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestEncode decodes and encodes pictures: what is stored is a JPEG of our own, at each width.
func TestEncode(t *testing.T) {
	for width, want := range map[int]string{1600: "[375 750 1280]", 800: "[375 750 800]", 750: "[375 750]", 100: "[100]"} {
		hash, sizes, err := catalogue.Encode(pictureOf(t, width, width/2))
		if err != nil || len(hash) != 32 {
			t.Fatal(width, hash, err)
		}
		var got []int
		for _, s := range sizes {
			m, err := jpeg.Decode(bytes.NewReader(s.Body))
			if err != nil || m.Bounds().Dx() != s.Width || m.Bounds().Dy() != s.Height || s.Kind != "image/jpeg" {
				t.Errorf("size %d of %d: %v", s.Width, width, err)
			}
			got = append(got, s.Width)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("a picture of %d has widths %v, want %s", width, got, want)
		}
	}
	small := pictureOf(t, 10, 10)
	huge := pictureOf(t, 10, 10)
	binary.BigEndian.PutUint32(huge[16:], 8000) // width and height of the header, and its checksum
	binary.BigEndian.PutUint32(huge[20:], 6000)
	binary.BigEndian.PutUint32(huge[29:], crc32.ChecksumIEEE(huge[12:29]))
	if _, _, err := catalogue.Encode(huge); err == nil || !strings.Contains(err.Error(), "up to 40000000 pixels") {
		t.Errorf("a picture of 48,000,000 pixels: %v", err)
	}
	for name, body := range map[string][]byte{
		"empty": nil, "HTML": []byte("<html><script>alert(1)</script>"), "SVG": []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`),
		"a GIF": []byte("GIF89a\x01\x00\x01\x00"), "damaged": small[:len(small)-20], "too many pixels": huge,
		"too large": append(pictureOf(t, 10, 10), make([]byte, catalogue.MaxBytes)...), "a strip": pictureOf(t, 2, 100),
	} {
		if _, _, err := catalogue.Encode(body); !errors.Is(err, sale.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	// A picture with a page behind it loses the page.
	_, sizes, err := catalogue.Encode(append(pictureOf(t, 10, 10), "<script>"...))
	if err != nil || bytes.Contains(sizes[0].Body, []byte("<script>")) {
		t.Errorf("a picture with a page behind it: %v", err)
	}
}

// world is a shop with a catalogue over HTTP, and a ledger with a draft.
type world struct {
	l        *ledger.Ledger
	sale     sale.Sale
	requests int
	matched  int
	body     string
	copier   *catalogue.Copier
}

func open(t *testing.T, networks ...netip.Prefix) *world {
	t.Helper()
	w := &world{}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("GET /products", func(rw http.ResponseWriter, r *http.Request) {
		w.requests++
		rw.Header().Set("ETag", `"1"`)
		if r.Header.Get("If-None-Match") == `"1"` {
			w.matched++
			rw.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprint(rw, strings.ReplaceAll(w.body, "HOST", server.URL))
	})
	mux.HandleFunc("GET /tea.png", func(rw http.ResponseWriter, _ *http.Request) { rw.Write(pictureOf(t, 800, 600)) })
	mux.HandleFunc("GET /page.png", func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "<html>") })
	mux.HandleFunc("GET /elsewhere.png", func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, "/tea.png", http.StatusFound)
	})
	w.body = `[{"id":"other"},{"id":"tea","title":{"zh":"龙井","en":"Tea"},"description":{"zh":"新茶","en":"New"},"images":[{"url":"HOST/tea.png","alt":{"en":"A cup"}}],
		"list_price":12900,"currency":"CNY","variants":[{"sku":"tea-1","name":{"en":"One"},"price":12900}]}]`
	client := webhook.NewClient(5*time.Second, networks)
	c, err := catalogue.NewHTTP(server.URL, client)
	if err != nil {
		t.Fatal(err)
	}
	if w.l, err = ledger.Open(t.Context(), "sqlite::memory:", ledger.Config{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.l.Close() })
	now := time.Now()
	w.sale, err = w.l.Create(t.Context(), "shop", "", sale.Draft{SKU: "tea", Title: "Tea", Price: 9900, Stock: 1, StartsAt: now, EndsAt: now.Add(time.Hour)}.WithDefaults(), now)
	if err != nil {
		t.Fatal(err)
	}
	w.copier = &catalogue.Copier{Catalogue: c, Store: w.l.Products(), Pictures: client, Clock: time.Now}
	return w
}

var here = netip.MustParsePrefix("127.0.0.0/8")

func TestCopy(t *testing.T) {
	w := open(t, here)
	ctx := t.Context()
	if err := w.copier.Copy(ctx, &w.sale); err != nil {
		t.Fatal(err)
	}
	got, err := w.l.Products().Product(ctx, w.sale.ID)
	if err != nil || got.Title.ZH != "龙井" || got.Description.EN != "New" || got.ListPrice != 12900 || len(got.Pictures) != 1 || len(got.Variants) != 1 || got.Pictures[0].Alt.EN != "A cup" {
		t.Fatalf("the copy is %+v, %v", got, err)
	}
	p := got.Pictures[0]
	if fmt.Sprint(p.Widths) != "[375 750 800]" || p.Height != 600 {
		t.Errorf("picture %+v", p)
	}
	for _, width := range p.Widths {
		if s, err := w.l.Products().PictureSize(ctx, p.Hash, width); err != nil || len(s.Body) == 0 {
			t.Errorf("size %d: %v", width, err)
		}
	}
	if _, err := w.l.Products().PictureSize(ctx, p.Hash, 100); !errors.Is(err, sale.ErrNotFound) {
		t.Errorf("an unknown size: %v", err)
	}
	// What the merchant wrote is not replaced.
	got.Title.ZH = "商家"
	if err := w.l.Products().SetProduct(ctx, w.sale.ID, got, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := w.copier.Copy(ctx, &w.sale); err != nil {
		t.Fatal(err)
	}
	if got, err := w.l.Products().Product(ctx, w.sale.ID); err != nil || got.Title.ZH != "商家" || w.requests != 1 {
		t.Errorf("after a second copy: %+v, %v, %d requests", got.Title, err, w.requests)
	}
	// The copy of a sale shows the same.
	twin, err := w.l.Copy(ctx, "shop", w.sale.ID, "key", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := w.l.Products().Product(ctx, twin.ID); err != nil || got.Title.ZH != "商家" || len(got.Pictures) != 1 {
		t.Errorf("the copy of the sale shows %+v, %v", got, err)
	}
	if err := w.l.Products().SetProduct(ctx, "unknown", got, time.Now()); !errors.Is(err, sale.ErrNotFound) {
		t.Errorf("a product of an unknown sale: %v", err)
	}
}

// TestCopyRefused has catalogues that cannot be copied: each has an error, and the sale shows
// nothing of them.
func TestCopyRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(w *world)
		networks []netip.Prefix
		want     error
	}{
		"a private address":  {func(*world) {}, nil, sale.ErrUnavailable},
		"no JSON":            {func(w *world) { w.body = "<html>" }, []netip.Prefix{here}, sale.ErrUnavailable},
		"another currency":   {func(w *world) { w.body = strings.Replace(w.body, "CNY", "USD", 1) }, []netip.Prefix{here}, sale.ErrConflict},
		"a page as picture":  {func(w *world) { w.body = strings.Replace(w.body, "tea.png", "page.png", 1) }, []netip.Prefix{here}, sale.ErrInvalid},
		"a redirect":         {func(w *world) { w.body = strings.Replace(w.body, "tea.png", "elsewhere.png", 1) }, []netip.Prefix{here}, sale.ErrUnavailable},
		"a file":             {func(w *world) { w.body = strings.Replace(w.body, "HOST/tea.png", "file:///etc/passwd", 1) }, []netip.Prefix{here}, sale.ErrInvalid},
		"a negative price":   {func(w *world) { w.body = strings.Replace(w.body, "12900", "-1", 1) }, []netip.Prefix{here}, sale.ErrInvalid},
		"a direction change": {func(w *world) { w.body = strings.Replace(w.body, "新茶", `\u202e`, 1) }, []netip.Prefix{here}, sale.ErrInvalid},
		"a long title":       {func(w *world) { w.body = strings.Replace(w.body, "龙井", strings.Repeat("龙", 121), 1) }, []netip.Prefix{here}, sale.ErrInvalid},
	} {
		w := open(t, c.networks...)
		c.change(w)
		if err := w.copier.Copy(t.Context(), &w.sale); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if p, err := w.l.Products().Product(t.Context(), w.sale.ID); !errors.Is(err, sale.ErrNotFound) {
			t.Errorf("%s: shows %+v, %v", name, p, err)
		}
	}
	w := open(t, here)
	w.body = "[]"
	if err := w.copier.Copy(t.Context(), &w.sale); err != nil {
		t.Errorf("an unknown product: %v, want no error", err)
	}
}

// TestCopyOfAVariant copies the product of a variant, which is a sale of its own. The price of the
// variant is the original one.
func TestCopyOfAVariant(t *testing.T) {
	w := open(t, here)
	w.body = strings.Replace(w.body, `"price":12900}`, `"price":12900},{"sku":"tea-2","name":{"en":"Two"},"price":19900}`, 1)
	now := time.Now()
	for sku, price := range map[string]int64{"tea": 12900, "tea-2": 19900, "tea-3": 0} {
		s, err := w.l.Create(t.Context(), "shop", "", sale.Draft{SKU: sku, Title: "Tea", Price: 9900, Stock: 1, StartsAt: now, EndsAt: now.Add(time.Hour)}, now)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.copier.Copy(t.Context(), &s); err != nil {
			t.Fatal(err)
		}
		got, err := w.l.Products().Product(t.Context(), s.ID)
		if price == 0 {
			if !errors.Is(err, sale.ErrNotFound) {
				t.Errorf("%s shows %+v, %v", sku, got, err)
			}
		} else if err != nil || got.ListPrice != price || got.Title.EN != "Tea" || len(got.Variants) != 2 {
			t.Errorf("%s shows %+v, %v, want the list price %d", sku, got, err, price)
		}
	}
}

// TestETag asks twice: the second response is not sent again.
func TestETag(t *testing.T) {
	w := open(t, here)
	for range 2 {
		got, err := w.copier.Catalogue.Products(context.WithoutCancel(t.Context()), []string{"tea"})
		if err != nil || len(got) != 2 || got[1].Title.EN != "Tea" {
			t.Fatalf("products %+v, %v", got, err)
		}
	}
	if w.requests != 2 || w.matched != 1 {
		t.Errorf("%d requests, %d unchanged, want 2 and 1", w.requests, w.matched)
	}
}

// TestChanges checks that a change beyond the shown part of a long text is reported.
func TestChanges(t *testing.T) {
	long := strings.Repeat("x", 100)
	before, after := catalogue.Shown{Description: catalogue.Text{EN: long}}, catalogue.Shown{Description: catalogue.Text{EN: long + "y"}}
	part := strconv.Quote(long[:40])
	if got, want := after.Changes(&before), "description_en "+part+" → "+part+" …"; got != want {
		t.Errorf("Changes = %s, want %s", got, want)
	}
	if got := after.Changes(&after); got != "" {
		t.Errorf("without a change: %s", got)
	}
}
