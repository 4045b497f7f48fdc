package simulate

import (
	"context"
	"fmt"
	"time"

	"github.com/floodweir/weir"
)

// probe checks oracle 8 for every shared key, while reservations are open.
func (l *workload) probe() {
	for i, key := range l.shared {
		l.probeKey(i, weir.Request{Key: key, Limit: limitOf(key), N: 1})
	}
	for i, q := range l.quotas {
		l.probeKey(len(l.shared)+i, q.request(0, 1))
	}
}

func (l *workload) probeKey(i int, r weir.Request) {
	store, ctx := l.nodes[0].redis, context.Background()
	fail := func(format string, args ...any) {
		l.record.violate("RetryAfter: "+r.Key+" of "+r.Limit.String()+": "+format, args...)
	}
	slots := 0
	ask := func() (weir.Decision, error) {
		if r.Limit.IsConcurrency() {
			slots++
			r.Verb, r.ID, r.TTL = weir.Reserve, fmt.Sprintf("probe%d", slots), time.Second
		}
		return store.Do(ctx, r)
	}
	d, err := ask()
	admitted := 0
	for ; err == nil && d.OK && admitted < 200; admitted++ {
		d, err = ask()
	}
	if err != nil || d.OK || d.RetryAfter <= 0 || d.RetryAfter == weir.Never {
		fail("got %s, %v, want a denial", decisionText(d), err)
		return
	}
	if d.At.After(l.record.clock()) {
		return // the clock is behind the state
	}
	due := d.At.Add(d.RetryAfter)
	<-time.After(due.Add(-time.Microsecond).Sub(l.record.clock()) + time.Duration(i))
	// The TTL of a state that was last written while the clock was behind it ends before the
	// state does. So it may be admitted earlier.
	stale := l.record.setBack && admitted == 0
	if d, err = ask(); err != nil || (d.OK || d.RetryAfter != time.Microsecond) && !stale {
		fail("1µs early: got %s, %v, want a denial for 1µs", decisionText(d), err)
	}
	<-time.After(time.Microsecond)
	// After the clock was set back, a state moves forward once when the clock has passed its
	// latest instant, so the first time may be too early.
	if d, err = ask(); err == nil && !d.OK && l.record.setBack && d.RetryAfter != weir.Never {
		<-time.After(d.RetryAfter)
		d, err = ask()
	}
	if err != nil || !d.OK {
		fail("at RetryAfter: got %s, %v, want an admission", decisionText(d), err)
	}
}
