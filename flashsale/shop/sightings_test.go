package shop_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/shop"
)

// TestSightings checks that from where users bought is written soon, or when the shop stops, and one
// merchant does not see another's.
func TestSightings(t *testing.T) {
	inShop(t, func(w *world) {
		s := w.exposed(draft(2))
		networks := func() []sale.SharedNetwork {
			all, err := w.SharedNetworks(w.ctx, s.Merchant, s.ID)
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		after(125 * time.Millisecond) // between two ticks
		w.RecordNetwork("ann", s.ID, "192.0.2.1")
		w.RecordNetwork("bob", s.ID, "192.0.2.1")
		w.RecordNetwork("bob", "nothing", "192.0.2.1")
		synctest.Wait()
		if got := networks(); len(got) != 0 {
			t.Errorf("at once: %v", got)
		}
		after(time.Second)
		want := sale.SharedNetwork{Network: "192.0.2.1", Users: 2}
		if got := networks(); !slices.Equal(got, []sale.SharedNetwork{want}) {
			t.Errorf("a second later: %v, want %v", got, want)
		}
		if _, err := w.SharedNetworks(w.ctx, "other", s.ID); err == nil {
			t.Error("another merchant sees them")
		}
		for range 20_000 { // faster than it is written
			w.RecordNetwork("cat", s.ID, "192.0.2.1")
		}
		w.Stop()
		want.Users = 3
		if got := networks(); !slices.Equal(got, []sale.SharedNetwork{want}) {
			t.Errorf("after the end: %v, want %v", got, want)
		}
		if n := w.Stats().DroppedNetworks; n == 0 || n > 10_000 {
			t.Errorf("%d of 20,000 dropped, want some, and at most 10,000", n)
		}
	})
}

// networksLedger counts the networks that are written.
type networksLedger struct {
	sale.Ledger
	written atomic.Int64
}

func (l *networksLedger) RecordNetworks(ctx context.Context, seen []sale.NetworkUse) error {
	l.written.Add(int64(len(seen)))
	return l.Ledger.RecordNetworks(ctx, seen)
}

// TestOnlyUserOfANetwork checks that the first user of a network is written with the second.
func TestOnlyUserOfANetwork(t *testing.T) {
	inWorld(t, func(w *world) {
		l := &networksLedger{Ledger: w.ledger}
		w.Shop = w.started("a", func(c *shop.Config) { c.Ledger = l })
		defer w.Stop()
		s := w.exposed(draft(2))
		for i, c := range []struct {
			user, network string
			written       int64
		}{{"ann", "192.0.2.1", 0}, {"ann", "192.0.2.1", 0}, {"bob", "192.0.2.2", 0}, {"bob", "192.0.2.1", 2}, {"cat", "192.0.2.1", 3}} {
			w.RecordNetwork(c.user, s.ID, c.network)
			after(time.Second)
			if n := l.written.Load(); n != c.written {
				t.Errorf("step %d: %d written, want %d", i, n, c.written)
			}
		}
		all, err := w.SharedNetworks(w.ctx, s.Merchant, s.ID)
		if want := (sale.SharedNetwork{Network: "192.0.2.1", Users: 3}); err != nil || !slices.Equal(all, []sale.SharedNetwork{want}) {
			t.Errorf("networks %v, %v; want %v", all, err, want)
		}
	})
}
