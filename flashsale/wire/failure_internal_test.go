package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/sale"
)

func TestFailure(t *testing.T) {
	units := &sale.FieldError{Field: "units", Value: "5", Want: "1 to 1"}
	token := &sale.FieldError{Field: "token_for", Value: "0s", Want: "1s to 10m0s"}
	for _, c := range []struct {
		err           error
		detail, field string
	}{
		{fmt.Errorf("shop: add stock: %w", fmt.Errorf("ledger: add stock: %w", units)), "units: got 5, want 1 to 1", "units"},
		{fmt.Errorf("shop: draft: %w", token), "token_for: got 0s, want 1s to 10m0s", "token_for_ms"},
		{fmt.Errorf("shop: draft: %w", sale.Draft{SKU: "A B", Title: "stock"}.WithDefaults().Validate()),
			`sku: got "A B", want 1 to 64 letters a-z A-Z, digits, . _ -; stock: got 0, want 1 to 1000000; starts_at: got none, want a time; ends_at: got none, want a time`, "sku"},
		{fmt.Errorf("shop: contact: %w", sale.Contact{Name: "A", Phone: "x"}.Validate()),
			`phone: got "x", want 5 to 20 digits, and spaces, + - ( ) between them: 40 characters at most`, "phone"},
		{fmt.Errorf("shop: %w: Idempotency-Key: got 70 bytes", sale.ErrInvalid), "Idempotency-Key: got 70 bytes", ""},
		{fmt.Errorf("shop: edit: ledger: edit: %w: sale a1 has version 3, not 2", sale.ErrConflict), "sale a1 has version 3, not 2", ""},
		{fmt.Errorf("shop: expose: %w", sale.ErrConflict), "", ""},
	} {
		if f, known := Failure(c.err); f.Detail != c.detail || f.Field != c.field || !known {
			t.Errorf("Failure(%v) = %q of field %q, %v, want %q of %q", c.err, f.Detail, f.Field, known, c.detail, c.field)
		}
	}
	f, _ := Failure(fmt.Errorf("shop: draft: %w", sale.Draft{SKU: "a", Title: "A", Stock: 1}.WithDefaults().Validate()))
	want := []layers.FieldError{{Field: "starts_at", Detail: "got none, want a time", Code: sale.NoTime}, {Field: "ends_at", Detail: "got none, want a time", Code: sale.NoTime}}
	if !slices.Equal(f.Errors, want) {
		t.Errorf("Errors = %v, want %v", f.Errors, want)
	}
	f, _ = Failure(fmt.Errorf("%w: %s", sale.ErrInvalid, strings.Repeat("茶", 300)))
	if len(f.Detail) > 400 || !utf8.ValidString(f.Detail) {
		t.Errorf("detail has %d bytes, valid: %v", len(f.Detail), utf8.ValidString(f.Detail))
	}
}
