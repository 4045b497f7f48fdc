package run

import (
	"errors"
	"testing"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/web"
)

// TestLabBounds: more than the lab does is the asker's fault, and no failure of the office.
func TestLabBounds(t *testing.T) {
	_, err := lockLab(nil)(t.Context(), web.LabAsk{Design: "naive", Buyers: 100_000, Stock: 1})
	if !errors.Is(err, sale.ErrInvalid) {
		t.Errorf("100,000 buyers: %v, want that it is invalid", err)
	}
}
