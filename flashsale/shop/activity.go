package shop

import (
	"context"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// touch marks a sale as busy. Whether a sale is busy decides how often its counts are read:
// the background work of a quiet one makes no calls.
func (e *env) touch(l *liveSale) {
	if now := e.uptime(); now-time.Duration(l.touched.Swap(int64(now))) >= busyFor {
		signal(l.syncNow)
	}
}

// acknowledge remembers a reservation that this process acknowledges or keeps, and makes an
// order writer read its stream. It reports whether there is room.
func (e *env) acknowledge(l *liveSale, r sale.Reservation) bool {
	e.streams.add(l)
	return l.acknowledge(r, e.clock())
}

// isBusy reports whether the inventory's counts of a sale can change soon, or have to.
func (l *liveSale) isBusy(uptime time.Duration) bool {
	p := l.snapshot.Load()
	if !p.counted || uptime-time.Duration(l.touched.Load()) < busyFor {
		return true
	}
	c, s := &p.counts, &p.sale
	return c.Waiting > 0 || c.Backlog > 0 || s.State != sale.Ended &&
		(p.isRecovering() || c.Reserved != s.Sold || c.Stock < s.Stock || c.Paused != (s.State == sale.Paused) || c.Paid < s.Paid && s.Paid >= s.Stock)
}

// pause returns how long the inventorySync of a sale waits before it reads the counts again, if
// nothing wakes it. Busy sales together are read at most once per countsAtOnce.
func (s *inventorySync) pause() time.Duration {
	busy := s.sale.isBusy(s.uptime())
	if busy != s.counted {
		s.counted = busy
		if busy {
			s.busy.Add(1)
		} else {
			s.busy.Add(-1)
		}
	}
	shared := time.Duration(s.busy.Load()) * countsAtOnce
	p := s.sale.snapshot.Load()
	switch {
	case busy:
		return max(refreshEvery, shared)
	case p.sale.State == sale.Ended, s.sale.hasAcknowledged():
		return max(listEvery, shared)
	}
	return max(refreshEvery, p.sale.EndsAt.Sub(p.now(s.clock())))
}

func (l *liveSale) hasAcknowledged() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acknowledged) > 0
}

// attendance reports to the inventory that this process works. It makes this process check every
// sale once after another process has stopped, or after the inventory has lost its data. Entries
// that the other process has read, or was about to, are then written here.
type attendance struct {
	*env
	catalog *catalog
	worker  string
}

func (a *attendance) run(ctx context.Context) {
	tick := time.NewTicker(attendEvery)
	defer tick.Stop()
	for {
		call, cancel := a.call(ctx)
		stopped, err := a.inventory.Attend(call, a.worker)
		cancel()
		switch {
		case err != nil:
			a.stats.inventoryErrors.Add(1)
		case stopped > 0:
			for _, l := range a.catalog.live() {
				signal(l.syncNow)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
