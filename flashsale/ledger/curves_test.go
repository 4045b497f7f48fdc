package ledger_test

import (
	"testing"

	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/verify/curvetest"
)

func TestCurves(t *testing.T) {
	curvetest.Run(t, func(t *testing.T) curvetest.Ledger { return openAt(t, "sqlite::memory:", ledger.Config{}) })
}
