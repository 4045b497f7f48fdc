package wire

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/floodweir/weir/flashsale/sale"
)

// TestSaid: what people are told of an error is what is wrong, and not who found it.
func TestSaid(t *testing.T) {
	for _, c := range []struct {
		err         error
		kind        error
		want, field string
	}{
		{fmt.Errorf("shop: draft: %w", fmt.Errorf("%w: sku = \"A B\", want letters; title = \"\", want 1", sale.ErrInvalid)), sale.ErrInvalid,
			`sku = "A B", want letters; title = "", want 1`, "sku"},
		{fmt.Errorf("shop: Idempotency-Key: %w: got 70 bytes", sale.ErrInvalid), sale.ErrInvalid, "Idempotency-Key: got 70 bytes", ""},
		{fmt.Errorf("shop: contact: %w: phone = \"x\", want digits", sale.ErrInvalid), sale.ErrInvalid, `phone = "x", want digits`, "phone"},
		{fmt.Errorf("shop: edit: ledger: edit: %w: sale a1 has version 3, not 2", sale.ErrConflict), sale.ErrConflict, "sale a1 has version 3, not 2", ""},
		{fmt.Errorf("shop: expose: %w", sale.ErrConflict), sale.ErrConflict, "", ""},
		{fmt.Errorf("%w: token_for = 0s, want 1s", sale.ErrInvalid), sale.ErrInvalid, "token_for = 0s, want 1s", "token_for_ms"},
	} {
		if got := said(c.err, c.kind); got != c.want || FieldOf(got) != c.field {
			t.Errorf("said(%v) = %q of field %q, want %q of %q", c.err, got, FieldOf(got), c.want, c.field)
		}
	}
	long := said(fmt.Errorf("%w: %s", sale.ErrInvalid, strings.Repeat("茶", 300)), sale.ErrInvalid)
	if len(long) > 400 || !utf8.ValidString(long) {
		t.Errorf("%d bytes, valid: %v", len(long), utf8.ValidString(long))
	}
}
