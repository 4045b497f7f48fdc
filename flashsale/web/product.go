package web

import (
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
	maxProducts = 1000            // in memory
	maxPictures = 32 << 20        // bytes in memory
)

// shelf serves products and pictures from memory, and reads them from a store.
type shelf struct {
	store    catalogue.Store
	mu       sync.Mutex
	products map[string]shelved
	pictures map[string][]byte
	size     int // of pictures, in bytes
}

// shelved is the encoded product of a sale.
type shelved struct {
	body  []byte
	until time.Time
}

func newShelf(s catalogue.Store) *shelf {
	return &shelf{store: s, products: map[string]shelved{}, pictures: map[string][]byte{}}
}

// shopper is a call that looks at a product.
type shopper struct{ *call }

// product returns what the sale shows of its product.
func (c shopper) product(w http.ResponseWriter) {
	sh := c.shop.shelf
	if sh.store == nil {
		wire.RefuseReason(w, layers.NotFound)
		return
	}
	if _, err := c.config.Service.View(c.r.Context(), c.id); err != nil { // a draft is not public
		c.fail(w, err)
		return
	}
	sh.mu.Lock()
	p, ok := sh.products[c.id]
	sh.mu.Unlock()
	if !ok || !c.now.Before(p.until) {
		shown, err := sh.store.Product(c.r.Context(), c.id)
		if err != nil && !errors.Is(err, sale.ErrNotFound) { // without a product it shows its title alone
			c.fail(w, err)
			return
		}
		body, err := json.Marshal(shown)
		if err != nil {
			c.fail(w, err)
			return
		}
		p = shelved{append(body, '\n'), c.now.Add(productFor)}
		sh.mu.Lock()
		if len(sh.products) >= maxProducts {
			clear(sh.products)
		}
		sh.products[c.id] = p
		sh.mu.Unlock()
	}
	tag := tagOf(p.body)
	w.Header()["Etag"] = []string{tag}
	w.Header()["Cache-Control"] = revalidate
	if none := c.r.Header.Get("If-None-Match"); none != "" && strings.Contains(none, tag[2:]) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	wire.WriteJSON(w, http.StatusOK, p.body)
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
