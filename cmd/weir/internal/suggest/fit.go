package suggest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/floodweir/weir"
)

// periods has the periods of quotas. A quota is proposed for logs of two periods or more.
var periods = [...]struct {
	text string
	us   int64
}{{"h", time.Hour.Microseconds()}, {"24h", 24 * time.Hour.Microseconds()}}

// quotaSlots is the number of slots in a period.
const quotaSlots = 6

// A window counts the cost of recent requests, and keeps the maximum. It covers between one
// period and one and a sixth. A token bucket of that size, refilled in one period, admits
// everything: it never lacks more than what the last period took.
type window struct {
	at    int64 // the number of the current slot
	slots [quotaSlots + 1]float32
	sum   float32
	most  float32
}

func (w *window) add(at, period int64, cost float32) {
	now := at / (period / quotaSlots)
	if now-w.at > quotaSlots {
		*w = window{at: now, most: w.most}
	}
	for w.at < now {
		w.at++
		slot := &w.slots[w.at%(quotaSlots+1)]
		w.sum, *slot = w.sum-*slot, 0
	}
	w.slots[w.at%(quotaSlots+1)] += cost
	w.sum += cost
	w.most = max(w.most, w.sum)
}

// A fit is a limit with quotas.
type fit struct {
	rate   int // of rates
	burst  float64
	quotas [len(periods)]float64 // 0: none
}

// A bounds has the limits between which a fit is.
type bounds struct {
	least, most           int // of rates
	leastBurst, mostBurst float64
	leastRate             float64 // per second
}

// Bound is a Config's Min or Max: limits by the name of their policy. The limit of "" is that
// of the other policies. Their rate and their burst count.
type Bound map[string]weir.Limit

// bounds returns the bounds of a policy.
func (c *Config) bounds(policy string) (bounds, error) {
	b := bounds{most: len(rates) - 1, mostBurst: math.Inf(1)}
	find := func(all Bound) (weir.Limit, bool) {
		l, ok := all[policy]
		if !ok {
			l, ok = all[""]
		}
		return l, ok
	}
	if l, ok := find(c.Min); ok {
		b.leastRate, b.leastBurst = float64(l.Count())/l.Period().Seconds(), float64(l.Capacity())
		b.least, _ = slices.BinarySearchFunc(rates[:], b.leastRate*(1-1e-9), func(r rate, v float64) int { return cmp.Compare(r.perSecond, v) })
	}
	if l, ok := find(c.Max); ok {
		b.mostBurst = float64(l.Capacity())
		above, _ := slices.BinarySearchFunc(rates[:], float64(l.Count())/l.Period().Seconds()*(1+1e-9), func(r rate, v float64) int { return cmp.Compare(r.perSecond, v) })
		b.most = above - 1
	}
	if b.least > b.most || b.leastBurst > b.mostBurst {
		return b, fmt.Errorf("bounds of %s: %w: got no rate or burst between them, want a minimum below the maximum, with a rate from %s to %s between them",
			policy, weir.ErrInvalid, rates[0].text, rates[len(rates)-1].text)
	}
	return b, nil
}

// choose returns the smallest rate whose burst lasts at most a minute, within the bounds.
func (b *bounds) choose(burst func(rate int) float64) (f fit) {
	for f.rate = b.least; f.rate <= b.most; f.rate++ {
		if f.burst = math.Ceil(burst(f.rate)); f.burst <= 60*rates[f.rate].perSecond || f.rate == b.most {
			break
		}
	}
	f.burst = max(1, b.leastBurst, min(f.burst, b.mostBurst))
	return f
}

// quota sets a quota, if it is less than half of what the limit admits otherwise.
func (b *bounds) quota(f *fit, p int, n float64) {
	seconds := float64(periods[p].us) / 1e6
	admits := f.burst + rates[f.rate].perSecond*seconds
	for shorter, q := range f.quotas[:p] {
		if q > 0 {
			admits = min(admits, q*(1+float64(periods[p].us)/float64(periods[shorter].us)))
		}
	}
	if n = roundUp(max(n, b.leastRate*seconds, f.burst)); 2*n <= admits {
		f.quotas[p] = n
	}
}

// roundUp returns a whole number of two significant digits, or of less than 100.
func roundUp(v float64) float64 {
	unit := 1.0
	for v > 100*unit {
		unit *= 10
	}
	return math.Ceil(v/unit) * unit
}

// of returns the fit of a share of clients, times a factor.
func (b *bounds) of(all []use, share, factor float64, span int64) fit {
	f := b.choose(func(i int) float64 {
		return factor * quantile(all, share, func(u *use) float32 { return u.burst[i] })
	})
	for p := range periods {
		if span >= 2*periods[p].us && all[0].windows != nil {
			b.quota(&f, p, factor*quantile(all, share, func(u *use) float32 { return u.windows[p].most }))
		}
	}
	return f
}

// override returns the fit of one client that is above f.
func (b *bounds) override(u *use, f fit) fit {
	own := f
	if float64(u.burst[f.rate]) > f.burst {
		own = b.choose(func(i int) float64 { return 1.5 * float64(u.burst[i]) })
		own.quotas = f.quotas
	}
	for p, q := range f.quotas {
		if q > 0 {
			own.quotas[p] = roundUp(max(q, 1.5*float64(u.windows[p].most)))
		}
	}
	return own
}

// admits reports whether a fit admits everything of a client.
func (f *fit) admits(u *use) bool {
	for p, q := range f.quotas {
		if q > 0 && float64(u.windows[p].most) > q {
			return false
		}
	}
	return float64(u.burst[f.rate]) <= f.burst
}

// texts returns the limits.
func (f *fit) texts() []string {
	all := []string{fmt.Sprintf("%s burst %.0f", rates[f.rate].text, f.burst)}
	for p, q := range f.quotas {
		if q > 0 {
			all = append(all, fmt.Sprintf("%.0f/%s", q, periods[p].text))
		}
	}
	return all
}

// quantile returns the quantile of a value of clients.
func quantile(all []use, share float64, of func(*use) float32) float64 {
	values := make([]float32, len(all))
	for i := range all {
		values[i] = of(&all[i])
	}
	slices.Sort(values)
	return float64(values[max(0, int(math.Ceil(share*float64(len(values))))-1)])
}
