package flashsale_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/verify/calllog"
)

// sharedTrial returns a trial over a database and a Redis.
func sharedTrial(t *testing.T) *trial {
	url := "redis://" + redistest.Start(t).Addr
	return newTrial(t, sharedConfig(t, newDatabase(t, &postgres), url), url)
}

// TestFaultsOfProcesses adds two processes to one, then kills one and stops another. No
// reservation is lost.
func TestFaultsOfProcesses(t *testing.T) {
	t.Parallel()
	y := sharedTrial(t)
	first := y.serve(0)
	v := y.run(func(ctx context.Context) {
		second := y.serve(0)
		y.serve(0)
		until(ctx, time.Now().Add(500*time.Millisecond))
		y.remove(first)
		first.Kill()
		until(ctx, time.Now().Add(300*time.Millisecond))
		y.remove(second)
		if err := second.Terminate(); err != nil {
			t.Errorf("a process after SIGTERM: %v", err)
		}
		until(ctx, time.Now().Add(300*time.Millisecond))
		y.serve(0)
	})
	if n := v.tally.Lost + v.tally.Rejected; n > 0 || v.tally.Sale.Epoch != 1 {
		t.Errorf("%d granted reservations are lost or rejected, the sale is at epoch %d", n, v.tally.Sale.Epoch)
	}
	t.Logf("%d paid of %d, %d calls 503, %d checks of the auditor", v.tally.Paid, y.units, v.unavailable, v.checks)
	y.stop()
}

// TestFaultsOfClocks runs two processes with clocks a minute apart, and sets one clock back by a
// minute in the middle of the sale.
func TestFaultsOfClocks(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string][2]time.Duration{"ahead": {time.Minute, time.Nanosecond}, "behind": {-time.Minute, time.Nanosecond}, "steps back": {time.Nanosecond, time.Nanosecond}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := sharedTrial(t)
			if name == "ahead" {
				y.pay = 90 * time.Second // by that clock one minute has already passed
			}
			other := y.serve(ahead[0])
			y.serve(ahead[1])
			v := y.run(func(context.Context) {
				if name == "steps back" {
					if _, err := other.Do("clock -60s"); err != nil {
						t.Error(err)
					}
				}
			})
			for _, o := range v.seen {
				if o.Action == calllog.Buy && o.Status == http.StatusAccepted && o.At.Before(y.start) {
					t.Errorf("%s bought at %v, before the start at %v", o.User, o.At, y.start)
				}
			}
			t.Logf("%d paid, %d expired, %d refunds due, %d checks of the auditor", v.tally.Paid, v.tally.Expired, v.tally.RefundDue, v.checks)
			y.stop()
		})
	}
}

// within polls each process until it shows the change, and returns the longest time that one
// took.
func (y *trial) within(ctx context.Context, what string, shows func(c *shopProcess) error) time.Duration {
	began := time.Now()
	var mu sync.Mutex
	var slowest time.Duration
	var all sync.WaitGroup
	for _, c := range y.all() {
		all.Go(func() {
			var err error
			for until(ctx, time.Now().Add(10*time.Millisecond)) && time.Since(began) < within(10*time.Second) {
				if err = shows(c); err == nil {
					break
				}
			}
			mu.Lock()
			defer mu.Unlock()
			slowest = max(slowest, time.Since(began))
			if err != nil {
				y.t.Errorf("%s: %v", what, err)
			}
		})
	}
	all.Wait()
	if most := within(10 * time.Second); slowest > most { // 1 s on an idle machine
		y.t.Errorf("%s: effective in all processes after %v, want at most %v", what, slowest, most)
	}
	y.t.Logf("%s: effective in both after %v", what, slowest.Round(time.Millisecond))
	return slowest
}

// TestSwitches pauses and resumes a sale under load, adds units, loads invalid and strict
// limits, and kills the sale. Two processes follow within a second.
func TestSwitches(t *testing.T) {
	y := sharedTrial(t)
	y.arrival, y.customers, y.units, y.killed = 6*time.Second, 240, 90, true
	a, b := y.serve(0), y.serve(0)
	do := func(c *shopProcess, command string) {
		if _, err := c.Do(command); err != nil {
			t.Errorf("%s: %v", command, err)
		}
	}
	phase := func(is bool, phases ...string) func(*shopProcess) error {
		return func(c *shopProcess) error {
			v, err := y.view(c)
			if err == nil && strings.Contains(strings.Join(phases, " "), v.Phase) != is {
				err = fmt.Errorf("phase %s", v.Phase)
			}
			return err
		}
	}
	write := func(text string) {
		if err := os.WriteFile(y.config.Layers+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(y.config.Layers+".new", y.config.Layers); err != nil {
			t.Fatal(err)
		}
	}
	type interval struct{ from, to time.Time }
	var closed []interval
	var killed time.Time
	v := y.run(func(ctx context.Context) {
		for _, c := range []*shopProcess{a, b} {
			do(c, "pause "+y.sale)
			from := time.Now()
			y.within(ctx, "pause", phase(true, "paused"))
			until(ctx, time.Now().Add(200*time.Millisecond))
			closed = append(closed, interval{from, time.Now()})
			do(c, "resume "+y.sale)
			y.within(ctx, "resume", phase(false, "paused"))
		}
		y.units += 10
		do(b, "stock "+y.sale+" more 10")
		y.within(ctx, "stock", func(c *shopProcess) error {
			v, err := y.view(c)
			if err == nil && v.Stock != y.units {
				err = fmt.Errorf("stock %d", v.Stock)
			}
			return err
		})
		// Invalid limits change nothing.
		write("policies: [{name: address, key: nonsense}]")
		until(ctx, time.Now().Add(600*time.Millisecond))
		if v, err := y.view(a); err != nil || v.Phase == "" {
			t.Errorf("with an invalid file: %+v, %v", v, err)
		}
		write(string(layers.Default()))
		y.within(ctx, "strict limits", func(c *shopProcess) error {
			for range 100 {
				r, err := http.Get(c.Shop + "/api/time")
				if err != nil {
					return err
				}
				r.Body.Close()
				if r.StatusCode == http.StatusTooManyRequests {
					return nil
				}
			}
			return fmt.Errorf("100 requests were admitted")
		})
		write(string(lenientLayers()))
		until(ctx, time.Now().Add(time.Second))
		do(a, "kill "+y.sale)
		killed = time.Now()
		y.within(ctx, "kill", phase(true, "ended"))
	})
	for _, o := range v.seen {
		if o.Action != calllog.Buy || o.Granted.IsZero() {
			continue
		}
		for _, c := range append(closed, interval{killed, killed.Add(time.Hour)}) {
			if o.Granted.After(c.from) && o.Granted.Before(c.to) {
				t.Errorf("%s got a unit at %v, the sale was closed from %v to %v", o.User, o.Granted, c.from, c.to)
			}
		}
	}
	t.Logf("%d paid of %d, %d checks of the auditor", v.tally.Paid, y.units, v.checks)
	y.stop()
}
