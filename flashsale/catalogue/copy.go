package catalogue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// copyTimeout bounds the copy of a product with its pictures.
const copyTimeout = 20 * time.Second

// Copier copies products into sales. All fields but Catalogue are required.
type Copier struct {
	Catalogue Catalogue // nil: merchants write products in the office alone
	Store     Store
	Pictures  *http.Client // reads the pictures of a catalogue; it bounds where it connects
	Clock     func() time.Time
}

// Upload stores a picture and adds it to what a sale shows.
func (c *Copier) Upload(ctx context.Context, id string, body []byte, alt Text) (Shown, error) {
	shown, err := c.Store.Product(ctx, id)
	if err != nil && !errors.Is(err, sale.ErrNotFound) {
		return Shown{}, err
	}
	shown.Pictures = append(shown.Pictures, Picture{Alt: alt})
	if err := shown.Validate(); err != nil { // before it is stored
		return Shown{}, err
	}
	if shown.Pictures[len(shown.Pictures)-1], err = c.add(ctx, body, alt); err != nil {
		return Shown{}, err
	}
	return shown, c.Store.SetProduct(ctx, id, shown, c.Clock())
}

// add stores a picture.
func (c *Copier) add(ctx context.Context, body []byte, alt Text) (Picture, error) {
	hash, sizes, err := Encode(body)
	if err != nil {
		return Picture{}, err
	}
	return pictureOf(hash, sizes, alt), c.Store.AddPicture(ctx, hash, sizes, c.Clock())
}

// Copy copies the product of a sale, unless its merchant has written one. A catalogue without
// the product changes nothing.
func (c *Copier) Copy(ctx context.Context, s *sale.Sale) error {
	if c.Catalogue == nil {
		return nil
	}
	switch _, err := c.Store.Product(ctx, s.ID); {
	case err == nil:
		return nil
	case !errors.Is(err, sale.ErrNotFound):
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	products, err := c.Catalogue.Products(ctx, []string{s.SKU})
	if err != nil {
		return fmt.Errorf("catalogue: %w: %w", sale.ErrUnavailable, err)
	}
	if p, ok := find(products, s.SKU); ok {
		shown := Shown{Title: p.Title, Description: p.Description, ListPrice: p.ListPrice, Variants: p.Variants}
		if p.Currency != "" && p.Currency != s.Currency {
			return fmt.Errorf("catalogue: %w: product %.80q has currency %.10q, and the sale %s", sale.ErrConflict, p.ID, p.Currency, s.Currency)
		}
		for _, i := range p.Images[:min(len(p.Images), MaxImages)] {
			body, err := c.read(ctx, i.URL)
			if err != nil {
				return err
			}
			picture, err := c.add(ctx, body, i.Alt)
			if err != nil {
				return err
			}
			shown.Pictures = append(shown.Pictures, picture)
		}
		if err := shown.Validate(); err != nil {
			return err
		}
		return c.Store.SetProduct(ctx, s.ID, shown, c.Clock())
	}
	return nil
}

// find returns the product with this ID, or the product with a variant of this SKU, whose price is
// then the original one.
func find(products []Product, sku string) (Product, bool) {
	for _, p := range products {
		if p.ID == sku {
			return p, true
		}
	}
	for _, p := range products {
		for _, v := range p.Variants {
			if v.SKU == sku {
				p.ListPrice = v.Price
				return p, true
			}
		}
	}
	return Product{}, false
}

// read reads a picture of a catalogue.
func (c *Copier) read(ctx context.Context, address string) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return nil, fmt.Errorf("catalogue: %w: image: got %.200q, want an https URL", sale.ErrInvalid, address)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	res, err := c.Pictures.Do(r)
	if err != nil {
		return nil, fmt.Errorf("catalogue: image: %w: %w", sale.ErrUnavailable, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("catalogue: image %.200q: %w: status %d", address, sale.ErrUnavailable, res.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("catalogue: image: %w: %w", sale.ErrUnavailable, err)
	}
	return body, nil
}

// Merchants is a sale.MerchantService that copies the product when a sale is exposed.
type Merchants struct {
	sale.MerchantService
	Copier *Copier
}

// Expose implements sale.MerchantService. If the product cannot be copied, the sale stays a draft.
func (m Merchants) Expose(ctx context.Context, merchant, id string) (sale.Sale, error) {
	s, err := m.Sale(ctx, merchant, id)
	if err != nil {
		return sale.Sale{}, err
	}
	if s.State == sale.Drafted {
		if err := m.Copier.Copy(ctx, &s); err != nil {
			return sale.Sale{}, err
		}
	}
	return m.MerchantService.Expose(ctx, merchant, id)
}
