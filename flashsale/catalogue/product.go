package catalogue

import (
	"context"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/floodweir/weir/flashsale/sale"
)

// Text is a text in both languages. A missing one is replaced by the other.
type Text struct {
	ZH string `json:"zh"`
	EN string `json:"en"`
}

// Product is a product of a shop.
type Product struct {
	ID          string    `json:"id"` // the SKU of the sale
	Title       Text      `json:"title"`
	Description Text      `json:"description"`
	Images      []Image   `json:"images"`
	ListPrice   int64     `json:"list_price"` // the original price in the smallest unit; 0 for none
	Currency    string    `json:"currency"`
	Variants    []Variant `json:"variants"`
}

// Image is a picture of a product.
type Image struct {
	URL string `json:"url"` // https
	Alt Text   `json:"alt"` // describes the picture for buyers who do not see it
}

// Variant is a form in which a product is sold.
type Variant struct {
	SKU   string `json:"sku"` // of the sale of this variant, if there is one
	Name  Text   `json:"name"`
	Price int64  `json:"price"`
}

// Validate returns an error that wraps sale.ErrInvalid if a merchant cannot write v. The sale of a
// variant is found by its SKU, so it needs one.
func (v *Variant) Validate() error {
	if !sale.IsSKU(v.SKU) {
		return &sale.FieldError{Field: "sku", Value: fmt.Sprintf("%.80q", v.SKU), Want: sale.SKUForm}
	}
	if err := v.Name.check("name", MaxTitle); err != nil {
		return err
	}
	return checkPrice("price", v.Price)
}

func checkPrice(field string, price int64) error {
	if price < 0 || price > maxPrice {
		return &sale.FieldError{Field: field, Value: fmt.Sprint(price), Want: fmt.Sprintf("0 to %d", int64(maxPrice)), Code: sale.OutOfRange, Max: maxPrice}
	}
	return nil
}

// Catalogue returns products of a shop. It is called concurrently, with a deadline in the context.
type Catalogue interface {
	// Products returns the products with these IDs or a variant with such a SKU, in any order.
	// Unknown ones are missing.
	Products(ctx context.Context, ids []string) ([]Product, error)
}

// Shown is the copy of a product that a sale shows.
type Shown struct {
	Title       Text      `json:"title"`
	Description Text      `json:"description"`
	Pictures    []Picture `json:"pictures"`
	ListPrice   int64     `json:"list_price"`
	Variants    []Variant `json:"variants"`
}

// Picture is a stored picture.
type Picture struct {
	Hash   string `json:"hash"`
	Widths []int  `json:"widths"` // of the stored sizes, the smallest first
	Height int    `json:"height"` // of the largest
	Alt    Text   `json:"alt"`
}

// The bounds of a product.
const (
	MaxTitle       = 120  // characters
	MaxDescription = 2000 // characters
	MaxImages      = 6
	MaxVariants    = 50
	maxPrice       = 1_000_000_000_000
)

// Validate returns an error that wraps sale.ErrInvalid if a sale cannot show s.
func (s *Shown) Validate() error {
	for _, f := range []struct {
		field string
		text  Text
		most  int
	}{{"title", s.Title, MaxTitle}, {"description", s.Description, MaxDescription}} {
		if err := f.text.check(f.field, f.most); err != nil {
			return err
		}
	}
	for _, p := range s.Pictures {
		if err := p.Alt.check("alt", MaxTitle); err != nil {
			return err
		}
	}
	for _, v := range s.Variants {
		if err := v.Name.check("variants", MaxTitle); err != nil {
			return err
		}
	}
	if err := checkPrice("list_price", s.ListPrice); err != nil {
		return err
	}
	switch {
	case len(s.Pictures) > MaxImages:
		return &sale.FieldError{Field: "images", Value: fmt.Sprint(len(s.Pictures)), Want: fmt.Sprintf("up to %d", MaxImages), Code: sale.OutOfRange, Max: MaxImages}
	case len(s.Variants) > MaxVariants:
		return &sale.FieldError{Field: "variants", Value: fmt.Sprint(len(s.Variants)), Want: fmt.Sprintf("up to %d", MaxVariants), Code: sale.OutOfRange, Max: MaxVariants}
	}
	return nil
}

func (t Text) check(field string, most int) error {
	for lang, text := range map[string]string{"zh": t.ZH, "en": t.EN} {
		if utf8.RuneCountInString(text) > most {
			return &sale.FieldError{Field: field + "_" + lang, Value: fmt.Sprintf("%.40q", text), Want: fmt.Sprintf("up to %d characters", most), Code: sale.WrongLength, Max: int64(most)}
		}
		bad := !utf8.ValidString(text)
		for _, r := range text {
			bad = bad || unicode.IsControl(r) && r != '\n' || unicode.Is(unicode.Bidi_Control, r)
		}
		if bad {
			return &sale.FieldError{Field: field + "_" + lang, Value: fmt.Sprintf("%.40q", text), Want: "text without control characters", Code: sale.HiddenText}
		}
	}
	return nil
}

// Store stores what sales show. It is safe for concurrent use. Errors wrap sale.ErrNotFound,
// sale.ErrInvalid or sale.ErrUnavailable.
type Store interface {
	// SetProduct sets what a sale shows. It removes pictures that the sale showed before and
	// that no sale shows now, and appends the Changes to the audit log.
	SetProduct(ctx context.Context, id string, s Shown, now time.Time) error

	// Product returns what a sale shows, or sale.ErrNotFound if it shows its title alone.
	Product(ctx context.Context, id string) (Shown, error)

	// AddPicture stores the sizes of a picture. It changes nothing if they are stored already.
	AddPicture(ctx context.Context, hash string, sizes []Size, now time.Time) error

	// PictureSize returns a size of a picture.
	PictureSize(ctx context.Context, hash string, width int) (Size, error)
}
