package inventorytest_test

import (
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/inventorytest"
	"github.com/floodweir/weir/flashsale/verify/inventorytest/random"
)

// TestModel runs the suite against the model, so that both agree.
func TestModel(t *testing.T) {
	inventorytest.Run(t, func(t *testing.T, clock *inventorytest.Clock) sale.Inventory {
		t.Helper()
		return &random.Model{Clock: clock, Redeliver: inventorytest.Redeliver}
	})
}

func TestRaceOfModel(t *testing.T) {
	inventorytest.Race(t, func(t *testing.T, clock *inventorytest.Clock) sale.Inventory {
		t.Helper()
		return &random.Model{Clock: clock, Redeliver: time.Hour}
	}, 1)
}
