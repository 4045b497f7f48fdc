package flashsale_test

import (
	"testing"

	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/verify/curvetest"
)

// TestPostgresCurves runs the conformance suite of the curves on a real server.
func TestPostgresCurves(t *testing.T) {
	t.Parallel()
	curvetest.Run(t, func(t *testing.T) curvetest.Ledger {
		return openPostgres(t, newDatabase(t, &ledgers), ledger.Config{})
	})
}
