package storetest

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/bounds"
)

// A broken is a Model with a bug: each function that is not nil stands before or
// behind the Model's own.
type broken struct {
	*Model
	setNow func(us int64)
	ask    func(r *weir.Request)                   // before Do, and each of DoAll
	answer func(r *weir.Request, d *weir.Decision) // after Do, and each of DoAll
	do     func(r weir.Request) (weir.Decision, error)
	doAll  func(rs []weir.Request, ds []weir.Decision) (bool, error)
}

func (b *broken) SetNow(us int64) {
	if b.setNow != nil {
		b.setNow(us)
		return
	}
	b.Model.SetNow(us)
}

func (b *broken) Do(ctx context.Context, r weir.Request) (d weir.Decision, err error) {
	if b.ask != nil {
		b.ask(&r)
	}
	if b.do != nil {
		d, err = b.do(r)
	} else {
		d, err = b.Model.Do(ctx, r)
	}
	if b.answer != nil && err == nil {
		b.answer(&r, &d)
	}
	return d, err
}

func (b *broken) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (ok bool, err error) {
	if b.doAll != nil {
		return b.doAll(rs, ds)
	}
	if b.ask != nil {
		rs = append([]weir.Request(nil), rs...)
		for i := range rs {
			b.ask(&rs[i])
		}
	}
	ok, err = b.Model.DoAll(ctx, rs, ds)
	for i := range ds {
		if b.answer != nil && err == nil {
			b.answer(&rs[i], &ds[i])
		}
	}
	return ok, err
}

// planted are bugs that stores have had, or could have.
var planted = map[string]func(b *broken){
	"reservations do not come back": func(b *broken) {
		b.ask = func(r *weir.Request) {
			if r.Verb == weir.Reserve && r.TTL > 0 && r.TTL < bounds.MaxTTL {
				r.TTL = bounds.MaxTTL
			}
		}
	},
	"every limit has a state of its own": func(b *broken) {
		b.ask = func(r *weir.Request) {
			if r.Key == "k" && r.Limit.Count() < 7 && r.Limit.Algorithm() == "leaky_bucket" {
				r.Key = fmt.Sprint(r.Key, r.Limit)
			}
		}
	},
	"reserving again charges again": func(b *broken) {
		n := 0
		b.ask = func(r *weir.Request) {
			if n++; r.Verb == weir.Reserve && r.ID != "" && r.ID == "one" {
				r.ID = fmt.Sprint(r.ID, n)
			}
		}
	},
	"a commit above the reservation is not charged": func(b *broken) {
		b.ask = func(r *weir.Request) {
			if r.Verb == weir.Commit {
				r.N = min(r.N, 4)
			}
		}
	},
	"a batch is half charged": func(b *broken) {
		b.doAll = func(rs []weir.Request, ds []weir.Decision) (bool, error) {
			for i, r := range rs {
				d, err := b.Model.Do(background, r)
				if ds[i] = d; err != nil || !d.OK {
					return false, err
				}
			}
			return true, nil
		}
	},
	"requests of a batch do not see those before them": func(b *broken) {
		b.doAll = func(rs []weir.Request, ds []weir.Decision) (bool, error) {
			for i, r := range rs {
				if err := r.Validate(); err != nil {
					return false, err
				}
				r.Verb = weir.Peek
				d, _ := b.Model.Do(background, r)
				if ds[i] = d; !d.OK {
					return false, nil
				}
			}
			return b.Model.DoAll(background, rs, ds)
		}
	},
	"RetryAfter is a microsecond early": func(b *broken) {
		b.answer = func(_ *weir.Request, d *weir.Decision) {
			if d.RetryAfter > time.Microsecond && d.RetryAfter != weir.Never {
				d.RetryAfter -= time.Microsecond
			}
		}
	},
	"RetryAfter is a microsecond late": func(b *broken) {
		b.answer = func(_ *weir.Request, d *weir.Decision) {
			if !d.OK && d.RetryAfter != weir.Never {
				d.RetryAfter += time.Microsecond
			}
		}
	},
	"a cost above the burst waits": func(b *broken) {
		b.answer = func(_ *weir.Request, d *weir.Decision) {
			if d.RetryAfter == weir.Never {
				d.RetryAfter = d.ResetAfter
			}
		}
	},
	"a return lifts above the capacity": func(b *broken) {
		var mu sync.Mutex
		bonus := map[string]int64{}
		b.answer = func(r *weir.Request, d *weir.Decision) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case r.Verb == weir.Return && d.Remaining == r.Limit.Capacity() && r.N < 1000:
				bonus[r.Key] += r.N
			case r.Verb == weir.Take && !d.OK && bonus[r.Key] >= r.N:
				bonus[r.Key] -= r.N
				d.OK, d.Granted, d.RetryAfter = true, r.N, 0
			}
		}
	},
	"a denial charges": func(b *broken) {
		b.answer = func(r *weir.Request, d *weir.Decision) {
			if !d.OK && r.Verb == weir.Take {
				_, _ = b.Model.Do(background, ask(weir.Charge, r.Key, r.Limit, 1))
			}
		}
	},
	"a peek consumes": func(b *broken) {
		b.ask = func(r *weir.Request) {
			if r.Verb == weir.Peek {
				r.Verb = weir.Take
			}
		}
	},
	"keys end at a zero byte": func(b *broken) {
		b.ask = func(r *weir.Request) {
			if i := strings.IndexByte(r.Key, 0); i > 0 {
				r.Key = r.Key[:i]
			}
		}
	},
	"keys are joined by a colon": func(b *broken) {
		b.ask = func(r *weir.Request) {
			if r.ID != "" {
				r.Key, r.ID = r.Key+":"+r.ID, "id" // one reservation per key, of the joined name
			}
		}
	},
	"keys are folded": func(b *broken) {
		b.ask = func(r *weir.Request) { r.Key = strings.ToLower(r.Key) }
	},
	"keys are cut": func(b *broken) {
		b.ask = func(r *weir.Request) {
			if len(r.Key) > 256 && len(r.Key) <= bounds.MaxKey {
				r.Key = r.Key[:256]
			}
		}
	},
	"long keys are taken": func(b *broken) {
		b.ask = func(r *weir.Request) {
			if len(r.Key) > bounds.MaxKey {
				r.Key = r.Key[:bounds.MaxKey]
			}
		}
	},
	"limits share a state": func(b *broken) {
		var mu sync.Mutex
		first := map[string]weir.Limit{}
		b.ask = func(r *weir.Request) {
			mu.Lock()
			defer mu.Unlock()
			if l, ok := first[r.Key]; ok && !r.Limit.IsZero() {
				r.Limit = l
			} else if !r.Limit.IsZero() {
				first[r.Key] = r.Limit
			}
		}
	},
	"a negative cost is nothing": func(b *broken) {
		b.ask = func(r *weir.Request) { r.N = max(0, r.N) }
	},
	"a negative charge gives tokens": func(b *broken) {
		b.ask = func(r *weir.Request) {
			if r.N < 0 && r.N != math.MinInt64 {
				r.Verb, r.N = weir.Return, -r.N
			}
		}
	},
	"the clock is in milliseconds": func(b *broken) {
		b.setNow = func(us int64) { b.Model.SetNow(us - us%1000) }
	},
	"going back in time begins afresh": func(b *broken) {
		last := int64(0)
		b.setNow = func(us int64) {
			if us < last {
				*b.Model = *NewModel(us) // no request is in flight while the clock is set
			}
			last = us
			b.Model.SetNow(us)
		}
	},
	"a day back begins afresh": func(b *broken) {
		last := int64(0)
		b.setNow = func(us int64) {
			if us <= last-24*hour.Microseconds() {
				*b.Model = *NewModel(us)
			}
			last = us
			b.Model.SetNow(us)
		}
	},
	"two askers at once see the same": func(b *broken) {
		b.do = func(r weir.Request) (weir.Decision, error) {
			if r.Verb != weir.Take || len(r.From) > 0 || r.Limit.Algorithm() != "token_bucket" {
				return b.Model.Do(background, r)
			}
			r.Verb = weir.Peek
			d, err := b.Model.Do(background, r)
			runtime.Gosched()
			if err == nil && d.OK {
				r.Verb = weir.Charge
				return b.Model.Do(background, r)
			}
			return d, err
		}
	},
	"a batch is two steps": func(b *broken) {
		b.doAll = func(rs []weir.Request, ds []weir.Decision) (bool, error) {
			for i := range rs {
				rs[i].Verb = min(rs[i].Verb, weir.Cancel)
			}
			peeks := append([]weir.Request(nil), rs...)
			for i := range peeks {
				if peeks[i].Verb != weir.Take {
					return b.Model.DoAll(background, rs, ds)
				}
			}
			if ok, err := b.Model.DoAll(background, append(peeks, peek("x", hourly(1), 0)), append(ds, weir.Decision{})); !ok || err != nil {
				return b.Model.DoAll(background, rs, ds)
			}
			runtime.Gosched()
			for i, r := range rs {
				r.Verb = weir.Charge
				ds[i], _ = b.Model.Do(background, r)
			}
			return true, nil
		}
	},
	"the five hundredth key evicts a key with debt": func(b *broken) {
		var mu sync.Mutex
		var seen []weir.Request
		b.ask = func(r *weir.Request) {
			mu.Lock()
			defer mu.Unlock()
			if seen = append(seen, *r); len(seen) > 500 {
				_, _ = b.Model.Do(background, ask(weir.Reset, seen[0].Key, seen[0].Limit, 0))
				seen = seen[1:]
			}
		}
	},
	"what remains is rounded up": func(b *broken) {
		b.answer = func(r *weir.Request, d *weir.Decision) {
			if d.ResetAfter%time.Millisecond != 0 && d.Remaining < r.Limit.Capacity() {
				d.Remaining++
			}
		}
	},
	"ResetAfter is that of RetryAfter": func(b *broken) {
		b.answer = func(_ *weir.Request, d *weir.Decision) {
			if !d.OK && d.RetryAfter != weir.Never {
				d.ResetAfter = d.RetryAfter
			}
		}
	},
	"every holder has slots of its own": func(b *broken) {
		b.ask = func(r *weir.Request) {
			if r.Limit.Count() == askers/2 && r.ID != "" && r.Limit.IsConcurrency() {
				r.Key += r.ID
			}
		}
	},
	"a partial grant says what was asked": func(b *broken) {
		b.answer = func(r *weir.Request, d *weir.Decision) {
			if d.OK && r.Verb == weir.TakeUpTo {
				d.Granted = r.N
			}
		}
	},
	"a queue does not delay": func(b *broken) {
		b.answer = func(_ *weir.Request, d *weir.Decision) { d.Delay = 0 }
	},
	"nothing is carried over": func(b *broken) {
		b.ask = func(r *weir.Request) { r.From = nil }
	},
	"every carry is proportional": func(b *broken) {
		b.ask = func(r *weir.Request) { r.Carry = min(r.Carry, weir.CarryReset+1) / 9 }
	},
	"a return credits any window": func(b *broken) {
		b.ask = func(r *weir.Request) { r.At = time.Time{} }
	},
	"a reset keeps reservations": func(b *broken) {
		b.ask = func(r *weir.Request) {
			if r.Verb == weir.Reset {
				r.Verb, r.N = weir.Return, 1<<40
			}
		}
	},
	"an unknown reservation is settled": func(b *broken) {
		b.do = func(r weir.Request) (weir.Decision, error) {
			d, err := b.Model.Do(background, r)
			if err != nil && r.Verb == weir.Cancel && r.ID != "" && r.Validate() == nil {
				return b.Model.Do(background, peek(r.Key, r.Limit, 0))
			}
			return d, err
		}
	},
	"the first call of a window is refused": func(b *broken) {
		b.answer = func(r *weir.Request, d *weir.Decision) {
			if r.Limit.Algorithm() == "fixed_window" && r.Verb == weir.Take && d.Remaining == r.Limit.Capacity()-r.N {
				d.OK, d.Granted = false, 0
			}
		}
	},
	"decisions are those of another instant": func(b *broken) {
		b.answer = func(_ *weir.Request, d *weir.Decision) { d.At = d.At.Add(time.Microsecond) }
	},
}

func TestPlantedBugsAreFound(t *testing.T) {
	for name, plant := range planted {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := func(testing.TB) Harness {
				b := &broken{Model: NewModel(origin)}
				plant(b)
				return Harness{Store: b, SetNow: b.SetNow, Monotonic: true}
			}
			for _, c := range checks(t) {
				if failures := failuresOf(func(tb testing.TB) { c.run(tb, open) }); len(failures) > 0 {
					t.Logf("%s: %s", c.name, failures[0])
					return
				}
			}
			failures := failuresOf(func(tb testing.TB) { Differential(tb, open, DiffConfig{Decisions: 5_000}) })
			if len(failures) == 0 {
				t.Fatal("no check failed")
			}
			t.Logf("Differential: %s", failures[0])
		})
	}
}

// TestNothingPlantedNothingFound checks that the recorder does not see failures where none
// are.
func TestNothingPlantedNothingFound(t *testing.T) {
	for _, c := range checks(t) {
		if failures := failuresOf(func(tb testing.TB) { c.run(tb, OpenModel) }); len(failures) > 0 {
			t.Errorf("%s: %s", c.name, failures[0])
		}
	}
}
