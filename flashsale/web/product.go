package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/floodweir/weir/flashsale/catalogue"
	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/wire"
)

const (
	productFor  = 2 * time.Second // how long a product is served from memory
	viewsFor    = time.Second     // how long the list of sales is
	maxAnswers  = 1000            // in memory
	maxPictures = 32 << 20        // bytes in memory
)

// shelf serves products and pictures from memory, and reads them from a store.
type shelf struct {
	service  sale.BuyerService
	store    catalogue.Store
	reading  sync.Mutex // held while the products of a list are read from store
	mu       sync.Mutex
	answers  map[string]answer
	shown    map[string]shownAt
	views    []sale.View // of all sales, at viewed
	viewed   time.Time
	pictures map[string][]byte
	size     int // of pictures, in bytes
}

// answer is an encoded response.
type answer struct {
	body  []byte
	tag   string
	until time.Time
}

func newShelf(service sale.BuyerService, s catalogue.Store) *shelf {
	return &shelf{service: service, store: s, answers: map[string]answer{}, shown: map[string]shownAt{}, pictures: map[string][]byte{}}
}

// answer returns the response of a key, and builds it again once it is older than keep. While one
// request builds it, the others get the previous one.
func (sh *shelf) answer(key string, now time.Time, keep time.Duration, build func() ([]byte, error)) (answer, error) {
	sh.mu.Lock()
	a, ok := sh.answers[key]
	late := now.Sub(a.until)
	if ok && late >= 0 && late < 10*keep {
		sh.answers[key] = answer{a.body, a.tag, now.Add(keep)}
	}
	sh.mu.Unlock()
	if ok && late < 0 && late >= -keep {
		return a, nil
	}
	body, err := build()
	if err != nil {
		return answer{}, err
	}
	a = answer{body, tagOf(body), now.Add(keep)}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if len(sh.answers) >= maxAnswers {
		clear(sh.answers)
	}
	sh.answers[key] = a
	return a, nil
}

// list returns the sales that buyers see, at most viewsFor old.
func (sh *shelf) list(ctx context.Context, now time.Time) ([]sale.View, error) {
	sh.mu.Lock()
	views, age := sh.views, now.Sub(sh.viewed)
	sh.mu.Unlock()
	if age >= 0 && age < viewsFor {
		return views, nil
	}
	views, err := sh.service.List(ctx)
	if err == nil {
		sh.mu.Lock()
		defer sh.mu.Unlock()
		sh.views, sh.viewed = views, now
	}
	return views, err
}

// shopper is a call that looks at a product.
type shopper struct{ *call }

// answer writes the response of a key. cache is its Cache-Control.
func (c shopper) answer(w http.ResponseWriter, key string, keep time.Duration, cache []string, build func() ([]byte, error)) {
	a, err := c.shop.shelf.answer(key, c.now, keep, build)
	if err != nil {
		c.fail(w, err)
		return
	}
	w.Header()["Etag"] = []string{a.tag}
	w.Header()["Cache-Control"] = cache
	if none := c.r.Header.Get("If-None-Match"); none != "" && strings.Contains(none, a.tag[2:]) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	wire.WriteJSON(w, http.StatusOK, a.body)
}

// product returns what the sale shows of its product, and which sales have its variants.
func (c shopper) product(w http.ResponseWriter) {
	sh := c.shop.shelf
	if sh.store == nil {
		wire.RefuseReason(w, layers.NotFound)
		return
	}
	v, err := c.config.Service.View(c.r.Context(), c.id)
	if err != nil { // a draft is not public
		c.fail(w, err)
		return
	}
	c.answer(w, "product/"+c.id, productFor, revalidate, func() ([]byte, error) {
		shown, err := sh.store.Product(c.r.Context(), c.id)
		if err != nil && !errors.Is(err, sale.ErrNotFound) { // without a product it shows its title alone
			return nil, err
		}
		var views []sale.View
		if len(shown.Variants) > 0 {
			if views, err = sh.list(c.r.Context(), c.now); err != nil {
				return nil, err
			}
		}
		body, err := json.Marshal(offered{shown, variantsOf(&v, shown.Variants, views)})
		return append(body, '\n'), err
	})
}

// offered is a product with the sales of its variants.
type offered struct {
	catalogue.Shown
	Variants []offeredVariant `json:"variants"`
}

// offeredVariant is a variant, with the price and the phase of its sale if there is one.
type offeredVariant struct {
	catalogue.Variant
	Sale  string     `json:"sale,omitempty"`
	Phase sale.Phase `json:"phase,omitempty"`
}

// variantsOf finds the sale of each variant: a sale of the same merchant, of which one that has
// units comes first.
func variantsOf(of *sale.View, variants []catalogue.Variant, views []sale.View) []offeredVariant {
	found := make(map[string]*sale.View, len(variants))
	over := func(v *sale.View) bool { return v.Phase == sale.SoldOut || v.Phase == sale.PhaseEnded }
	for i := range views {
		v := &views[i]
		if v.Sale.Merchant != of.Sale.Merchant || v.Sale.Currency != of.Sale.Currency {
			continue
		}
		if old := found[v.Sale.SKU]; old == nil || over(old) && !over(v) {
			found[v.Sale.SKU] = v
		}
	}
	found[of.Sale.SKU] = of
	all := make([]offeredVariant, len(variants))
	for i, variant := range variants {
		all[i].Variant = variant
		if v := found[variant.SKU]; v != nil {
			all[i].Sale, all[i].Phase, all[i].Price = v.Sale.ID, v.Phase, v.Sale.Price
		}
	}
	return all
}

// picture serves one size of a picture. Its name has the hash, so it never changes.
func (c shopper) picture(w http.ResponseWriter) {
	sh := c.shop.shelf
	if sh.store == nil {
		wire.RefuseReason(w, layers.NotFound)
		return
	}
	sh.mu.Lock()
	body := sh.pictures[c.id]
	sh.mu.Unlock()
	if body == nil {
		hash, width := pictureName(c.id)
		size, err := sh.store.PictureSize(c.r.Context(), hash, width)
		if err == nil && size.Kind != "image/jpeg" {
			err = fmt.Errorf("web: picture %s: got %q, want image/jpeg", c.id, size.Kind)
		}
		if err != nil {
			c.fail(w, err)
			return
		}
		body = size.Body
		sh.mu.Lock()
		if sh.size += len(body); sh.size > maxPictures {
			clear(sh.pictures)
			sh.size = len(body)
		}
		sh.pictures[c.id] = body
		sh.mu.Unlock()
	}
	h := w.Header()
	h.Set("Content-Type", "image/jpeg")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'")
	if c.r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client may have disconnected
	}
}

// pictureName splits the name of a picture, HASH-WIDTH.jpg. The width of any other name is 0.
func pictureName(name string) (hash string, width int) {
	base, ok := strings.CutSuffix(name, ".jpg")
	hash, text, _ := strings.Cut(base, "-")
	width, err := strconv.Atoi(text)
	if !ok || err != nil || width < 1 || width > 4096 || strconv.Itoa(width) != text || len(hash) != 32 || strings.Trim(hash, "0123456789abcdef") != "" {
		return "", 0
	}
	return hash, width
}

// isPicture reports whether a name can be the one of a picture.
func isPicture(name string) bool {
	_, width := pictureName(name)
	return width > 0
}
