package office

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/floodweir/weir/flashsale/catalogue"
	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/wire"
)

// products serves what the sales of a merchant show of their products.
type products struct {
	*Office
	copier *catalogue.Copier
}

// routes adds the routes of products.
func (o products) routes(r *router) {
	r.handle("GET /api/sales/{sale}/product", o.product)
	r.handle("PUT /api/sales/{sale}/product", o.setProduct)
	r.add("POST /api/sales/{sale}/pictures", o.upload)
	r.handle("GET /api/sales/{sale}/pictures/{hash}", o.picture)
	r.handle("POST /api/sales/{sale}/pictures/{hash}/remove", o.removePicture)
	r.handle("PUT /api/sales/{sale}/variants", o.setVariant)
	r.handle("POST /api/sales/{sale}/variants/remove", o.removeVariant)
}

// own reports whether the sale is the merchant's, and refuses if not.
func (o products) own(v *visit) bool {
	_, err := o.c.Service.Sale(v.r.Context(), v.merchant, v.sale)
	if err != nil {
		o.fail(v.w, v.r, err)
	}
	return err == nil
}

// shown returns what a sale shows. Without a product it is empty.
func (o products) shown(v *visit) (catalogue.Shown, error) {
	s, err := o.copier.Store.Product(v.r.Context(), v.sale)
	if errors.Is(err, sale.ErrNotFound) {
		err = nil
	}
	return s, err
}

func (o products) product(v *visit) {
	if o.own(v) {
		s, err := o.shown(v)
		o.send(v, http.StatusOK, s, err)
	}
}

// edit changes what a sale shows, and sends the result. f returns an error that the client gets.
func (o products) edit(v *visit, f func(*catalogue.Shown) error) {
	s, err := o.shown(v)
	if err == nil {
		err = f(&s)
	}
	if err == nil {
		err = s.Validate()
	}
	if err == nil {
		err = o.copier.Store.SetProduct(v.r.Context(), v.sale, s, o.c.Clock())
	}
	o.send(v, http.StatusOK, s, err)
}

func (o products) setProduct(v *visit) {
	if !o.own(v) {
		return
	}
	s, err := o.shown(v)
	if err != nil {
		o.fail(v.w, v.r, err)
		return
	}
	if !v.decode(
		wire.Member{Name: "title_zh", Text: &s.Title.ZH}, wire.Member{Name: "title_en", Text: &s.Title.EN},
		wire.Member{Name: "description_zh", Text: &s.Description.ZH}, wire.Member{Name: "description_en", Text: &s.Description.EN}, wire.Member{Name: "list_price", Num: &s.ListPrice},
	) {
		return
	}
	o.edit(v, func(now *catalogue.Shown) error {
		now.Title, now.Description, now.ListPrice = s.Title, s.Description, s.ListPrice
		return nil
	})
}

// picture sends the smallest size of a picture that the sale shows.
func (o products) picture(v *visit) {
	if !o.own(v) {
		return
	}
	s, err := o.shown(v)
	i := slices.IndexFunc(s.Pictures, func(p catalogue.Picture) bool { return p.Hash == v.r.PathValue("hash") })
	if err == nil {
		err = found(i >= 0)
	}
	var size catalogue.Size
	if err == nil {
		size, err = o.copier.Store.PictureSize(v.r.Context(), s.Pictures[i].Hash, slices.Min(s.Pictures[i].Widths))
	}
	if err != nil {
		o.fail(v.w, v.r, err)
		return
	}
	h := v.w.Header()
	h.Set("Content-Type", size.Kind)
	h.Set("Cache-Control", "private, max-age=31536000, immutable") // the hash names the content
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = v.w.Write(size.Body) // the client may have disconnected
}

// removePicture removes a picture from what a sale shows.
func (o products) removePicture(v *visit) {
	if o.own(v) && v.emptyBody() {
		o.edit(v, func(s *catalogue.Shown) error {
			n := len(s.Pictures)
			s.Pictures = slices.DeleteFunc(s.Pictures, func(p catalogue.Picture) bool { return p.Hash == v.r.PathValue("hash") })
			return found(len(s.Pictures) < n)
		})
	}
}

// setVariant adds a variant, or replaces the one with this SKU.
func (o products) setVariant(v *visit) {
	if !o.own(v) {
		return
	}
	var variant catalogue.Variant
	if !v.decode(wire.Member{Name: "sku", Text: &variant.SKU}, wire.Member{Name: "name_zh", Text: &variant.Name.ZH}, wire.Member{Name: "name_en", Text: &variant.Name.EN}, wire.Member{Name: "price", Num: &variant.Price}) {
		return
	}
	if err := variant.Validate(); err != nil {
		o.fail(v.w, v.r, err)
		return
	}
	o.edit(v, func(s *catalogue.Shown) error {
		if i := indexOf(s.Variants, variant.SKU); i >= 0 {
			s.Variants[i] = variant
		} else {
			s.Variants = append(s.Variants, variant)
		}
		return nil
	})
}

// removeVariant removes a variant from what a sale shows.
func (o products) removeVariant(v *visit) {
	var sku string
	if o.own(v) && v.decode(wire.Member{Name: "sku", Text: &sku}) {
		o.edit(v, func(s *catalogue.Shown) error {
			i := indexOf(s.Variants, sku)
			if i >= 0 {
				s.Variants = slices.Delete(s.Variants, i, i+1)
			}
			return found(i >= 0)
		})
	}
}

func indexOf(variants []catalogue.Variant, sku string) int {
	return slices.IndexFunc(variants, func(v catalogue.Variant) bool { return v.SKU == sku })
}

// found returns sale.ErrNotFound if ok is false.
func found(ok bool) error {
	if ok {
		return nil
	}
	return sale.ErrNotFound
}

// upload adds a picture, which is the body. Few are decoded at once, because each needs memory.
func (o products) upload(v *visit) {
	if !o.own(v) {
		return
	}
	w, r := v.w, v.r
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, catalogue.MaxBytes))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		(&wire.RequestError{Status: http.StatusRequestEntityTooLarge, Field: "image", Detail: fmt.Sprintf("image: want at most %d bytes", catalogue.MaxBytes)}).Refuse(w)
		return
	}
	if err != nil {
		(&wire.RequestError{Field: "image", Detail: "image: the body is not complete"}).Refuse(w)
		return
	}
	entry, busy := o.hashes.Enter(r.Context(), "")
	if busy != nil {
		layers.Refusal{Layer: sale.L4, Reason: sale.Overloaded, RetryAfter: 2 * time.Second}.Write(w)
		return
	}
	defer entry.Exit(nil)
	q := r.URL.Query()
	s, err := o.copier.Upload(r.Context(), v.sale, body, catalogue.Text{ZH: q.Get("alt_zh"), EN: q.Get("alt_en")})
	o.send(v, http.StatusOK, s, err)
}
