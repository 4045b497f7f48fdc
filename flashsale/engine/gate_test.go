package engine_test

import (
	"os"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/engine"
	"github.com/floodweir/weir/flashsale/gatetest"
	"github.com/floodweir/weir/flashsale/sale"
)

// open opens an Engine that redelivers after a time.
func open(redeliver time.Duration) gatetest.Open {
	return func(t *testing.T, clock *gatetest.Clock) sale.Gate {
		t.Helper()
		e, err := engine.New(engine.Config{Clock: clock.Now, Redeliver: redeliver})
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
	gatetest.Random(t, open(2000*time.Hour), 1, commands)
}

func TestRace(t *testing.T) {
	rounds := 5
	if long() {
		rounds = 200
	}
	gatetest.Race(t, open(time.Hour), rounds)
}

func TestRules(t *testing.T) { gatetest.Run(t, open(gatetest.Redeliver)) }
