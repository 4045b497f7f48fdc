package office

import (
	"errors"
	"fmt"
	"io"
	"net/http"
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
	r.handle("POST /api/sales/{sale}/pictures/{hash}/remove", o.removePicture)
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

func (o products) setProduct(v *visit) {
	if !o.own(v) {
		return
	}
	s, err := o.shown(v)
	if err != nil {
		o.fail(v.w, v.r, err)
		return
	}
	f := wire.Decode(v.body, []wire.Member{
		{Name: "title_zh", Text: &s.Title.ZH}, {Name: "title_en", Text: &s.Title.EN},
		{Name: "description_zh", Text: &s.Description.ZH}, {Name: "description_en", Text: &s.Description.EN}, {Name: "list_price", Num: &s.ListPrice},
	})
	if f != nil {
		f.Refuse(v.w)
		return
	}
	if err = s.Validate(); err == nil {
		err = o.copier.Store.SetProduct(v.r.Context(), v.sale, s, o.c.Clock())
	}
	o.send(v, http.StatusOK, s, err)
}

// removePicture removes a picture from what a sale shows.
func (o products) removePicture(v *visit) {
	if !o.own(v) || !v.emptyBody() {
		return
	}
	s, err := o.shown(v)
	kept := []catalogue.Picture{}
	for _, p := range s.Pictures {
		if p.Hash != v.r.PathValue("hash") {
			kept = append(kept, p)
		}
	}
	switch {
	case err != nil:
	case len(kept) == len(s.Pictures):
		err = sale.ErrNotFound
	default:
		s.Pictures = kept
		err = o.copier.Store.SetProduct(v.r.Context(), v.sale, s, o.c.Clock())
	}
	o.send(v, http.StatusOK, s, err)
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
