package share

import (
	"fmt"

	"github.com/floodweir/weir"
)

// unavailable returns the error of a call of a ledger without a reply.
func unavailable(call string, err error) error {
	return fmt.Errorf("share: ledger: %s: %w: %w", call, weir.ErrUnavailable, err)
}
