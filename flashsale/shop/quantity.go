package shop

import (
	"fmt"
	"strconv"

	"github.com/floodweir/weir/flashsale/sale"
)

// Quantity implements sale.BuyerService.
func (b *buyers) Quantity(units int) sale.BuyerService {
	if units == b.quantity {
		return b
	}
	wanting := *b
	wanting.quantity = units
	return &wanting
}

// checkQuantity returns an error if an order of the sale cannot have the wanted units.
func (v *visit) checkQuantity() error {
	if n, most := v.quantity, v.sale().MaxQuantity; n != 1 && (n < 1 || n > most) {
		return &sale.FieldError{Field: "quantity", Value: strconv.Itoa(n), Want: fmt.Sprintf("1 to %d", most), Code: sale.OutOfRange, Min: 1, Max: int64(most)}
	}
	return nil
}
