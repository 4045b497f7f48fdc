package gatetest_test

import (
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/gatetest"
	"github.com/floodweir/weir/flashsale/sale"
)

// The suite runs against the model too, so that both say the same of a Gate.
func TestModel(t *testing.T) {
	gatetest.Run(t, func(t *testing.T, clock *gatetest.Clock) sale.Gate {
		t.Helper()
		return &gatetest.Model{Clock: clock, Redeliver: gatetest.Redeliver}
	})
}

func TestRaceOfModel(t *testing.T) {
	gatetest.Race(t, func(t *testing.T, clock *gatetest.Clock) sale.Gate {
		t.Helper()
		return &gatetest.Model{Clock: clock, Redeliver: time.Hour}
	}, 1)
}
