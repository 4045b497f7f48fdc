package meminventory_test

import (
	"os"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/meminventory"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/inventorytest"
	"github.com/floodweir/weir/flashsale/verify/inventorytest/random"
)

// open opens an Inventory that redelivers after a time.
func open(redeliver time.Duration) inventorytest.Open {
	return func(t *testing.T, clock *inventorytest.Clock) sale.Inventory {
		t.Helper()
		e, err := meminventory.New(meminventory.Config{Clock: clock.Now, Redeliver: redeliver})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Stop)
		return e
	}
}

// long says whether there is time for full counts.
func long() bool { return os.Getenv("FLASHSALE_LONG") == "1" }

func TestRandom(t *testing.T) {
	commands := 50_000
	if long() {
		commands = 1_000_000
	}
	random.Run(t, open(2000*time.Hour), 1, commands)
}

func TestRace(t *testing.T) {
	rounds := 5
	if long() {
		rounds = 200
	}
	inventorytest.Race(t, open(time.Hour), rounds)
}

func TestRules(t *testing.T) { inventorytest.Run(t, open(inventorytest.Redeliver)) }
