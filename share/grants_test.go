package share_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/share"
)

// An external is a holder outside of the process: a token bucket that it uses until its lease ends.
type external struct {
	id     uint64
	limit  weir.Limit
	part   share.Part
	level  float64
	offer  share.Offer // of the last claim
	last   time.Time   // when level was counted
	until  time.Time
	grants *share.Grants
}

const externalLease = 4 * time.Second

// refill adds what the bucket got since the last time.
func (h *external) refill(now time.Time) {
	if h.part.Rate > 0 {
		perSecond := float64(h.offer.Tokens(h.part.Rate, 1000*time.Second)) / 1000
		h.level = min(float64(h.part.Size), h.level+perSecond*now.Sub(h.last).Seconds())
	}
	h.last = now
}

// claim asks for a random part.
func (h *external) claim(t *testing.T, r *rand.Rand) {
	begin := time.Now()
	var next share.Part
	c := share.Claim{
		Key: "key", Limit: h.limit, Holder: h.id, Lease: externalLease, Demand: 100,
		Decide: func(o share.Offer) share.Part {
			h.offer = o
			next = share.Part{}
			if n := o.Held.Rate + o.Free.Rate - o.Reserve.Rate; n > 0 {
				next.Rate = r.Int64N(n)
			}
			if n := o.Held.Size + o.Free.Size - o.Reserve.Size; n > 0 {
				next.Size = r.Int64N(n)
			}
			// The tokens of a part that has ended are lost.
			next.Level = r.Int64N(1 + min(o.Free.Level, next.Size))
			if o.Held == (share.Part{}) {
				h.level = 0
			}
			return next
		},
	}
	if err := h.grants.Do(t.Context(), &c); err != nil || c.Err != nil {
		t.Fatalf("Do = %v, %v", err, c.Err)
	}
	h.refill(time.Now())
	h.part, h.until = next, begin.Add(externalLease)
	h.level = min(h.level+float64(next.Level), float64(next.Size))
}

// TestGrants lets holders of several processes change their parts, die and return under a limit that
// changes too. Whatever they admit, one limit admits.
func TestGrants(t *testing.T) {
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			ledger := share.NewMemory(nil)
			var grants []*share.Grants
			for range 3 {
				g, err := share.NewGrants(ledger, share.Config{})
				if err != nil {
					t.Fatal(err)
				}
				defer g.Close()
				grants = append(grants, g)
			}
			limit := weir.MustLimit("1000/s burst 2000").Named("n")
			var holders []*external
			join := func() *external {
				return &external{id: r.Uint64(), limit: limit, grants: grants[r.IntN(3)]}
			}
			for range 5 {
				holders = append(holders, join())
			}
			type admission struct {
				at time.Time
				n  int64
			}
			var log []admission
			admitted := int64(0)
			var dead []*external // they use their parts until their leases end
			for range 3000 {
				time.Sleep(time.Duration(1+r.IntN(100)) * time.Millisecond)
				i := r.IntN(len(holders))
				switch h := holders[i]; {
				case r.IntN(30) == 0:
					dead, holders[i] = append(dead, h), join()
				case h.until.IsZero() || time.Now().Before(h.until):
					h.limit = limit
					h.claim(t, r)
				}
				now := time.Now()
				for _, h := range append(holders[:len(holders):len(holders)], dead...) {
					h.refill(now)
					if n := int64(h.level); n > 0 && now.Before(h.until) && r.IntN(4) > 0 {
						h.level -= float64(n)
						log = append(log, admission{now, n})
						admitted += n
					}
				}
			}
			slices.SortStableFunc(log, func(a, b admission) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
			var state []int64
			for _, a := range log {
				var res algo.Result
				if state, res = limit.Spec().Rule.Do(state, algo.Ask{Op: algo.Take, Now: a.at.UnixMicro(), N: a.n}); !res.OK {
					t.Fatalf("seed %d: %d tokens at %v exceed the limit: %+v", seed, a.n, a.at, res)
				}
			}
			if admitted < 20_000 {
				t.Errorf("seed %d: %d admitted, want 20000 or more", seed, admitted)
			}
		})
	}
}

// one makes a claim, and returns its offer and its error.
func one(t *testing.T, g *share.Grants, c share.Claim, part func(share.Offer) share.Part) (o share.Offer, err error) {
	t.Helper()
	c.Decide = func(v share.Offer) share.Part { o = v; return part(v) }
	if c.Lease == 0 {
		c.Lease = externalLease
	}
	if err := g.Do(t.Context(), &c); err != nil {
		t.Fatal(err)
	}
	return o, c.Err
}

func nothing(share.Offer) share.Part { return share.Part{} }

func half(o share.Offer) share.Part {
	return share.Part{Rate: o.Whole.Rate / 2, Size: o.Whole.Size / 2, Level: o.Free.Level / 2}
}

// TestGrantsLimitChange checks that a lowered limit leaves nothing until the holders of the former
// one have ended or taken less, and that a holder keeps its part.
func TestGrantsLimitChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := share.NewGrants(share.NewMemory(nil), share.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		high, low := weir.MustLimit("1000/s burst 2000").Named("n"), weir.MustLimit("400/s burst 800").Named("n")
		if _, err := one(t, g, share.Claim{Key: "k", Limit: high, Holder: 1}, half); err != nil {
			t.Fatal(err)
		}
		o, err := one(t, g, share.Claim{Key: "k", Limit: low, Holder: 2}, nothing)
		if err != nil || o.Free.Rate >= 0 || o.Free.Size != -200 || o.Free.Level != 0 {
			t.Fatalf("under a lower limit: %+v, %v, want nothing free", o, err)
		}
		o, err = one(t, g, share.Claim{Key: "k", Limit: low, Holder: 1}, func(o share.Offer) share.Part {
			return share.Part{Rate: o.Held.Rate / 2, Size: o.Held.Size / 2}
		})
		if got := o.Tokens(o.Held.Rate, 10*time.Second); err != nil || o.Held.Size != 1000 || got < 4990 || got > 5005 {
			t.Fatalf("the holder of the former limit: %+v, %v, want its 500/s and 1000", o, err)
		}
		time.Sleep(externalLease - time.Second)
		if o, _ = one(t, g, share.Claim{Key: "k", Limit: low, Holder: 2}, nothing); o.Free.Size != 300 {
			t.Errorf("after the holder took less: %+v, want 300 of 800 free", o)
		}
		time.Sleep(2 * externalLease)
		if o, _ = one(t, g, share.Claim{Key: "k", Limit: low, Holder: 2}, nothing); o.Free.Size != 800 {
			t.Errorf("after the lease of the holder: %+v, want all free", o)
		}
	})
}

// TestGrantsErrors checks claims that are refused, and a ledger that is unavailable.
func TestGrantsErrors(t *testing.T) {
	mem := share.NewMemory(nil)
	g, err := share.NewGrants(mem, share.Config{})
	if err != nil {
		t.Fatal(err)
	}
	limit := weir.MustLimit("1000/s burst 2000")
	for name, test := range map[string]struct {
		c    share.Claim
		part func(share.Offer) share.Part
		want error
	}{
		"no lease":       {share.Claim{Limit: limit, Lease: -1}, nothing, weir.ErrInvalid},
		"a window":       {share.Claim{Limit: weir.MustLimit("1000/s sliding_window")}, nothing, weir.ErrInvalid},
		"a small limit":  {share.Claim{Limit: weir.MustLimit("10/s")}, nothing, weir.ErrInvalid},
		"more rate":      {share.Claim{Limit: limit}, func(o share.Offer) share.Part { return share.Part{Rate: o.Whole.Rate + 1} }, weir.ErrInvalid},
		"more size":      {share.Claim{Limit: limit}, func(o share.Offer) share.Part { return share.Part{Size: o.Whole.Size + 1} }, weir.ErrInvalid},
		"more tokens":    {share.Claim{Limit: limit, Used: 1}, func(o share.Offer) share.Part { return share.Part{Size: 2000, Level: 2000} }, weir.ErrInvalid},
		"a part below 0": {share.Claim{Limit: limit}, func(o share.Offer) share.Part { return share.Part{Rate: -1} }, weir.ErrInvalid},
	} {
		if _, err := one(t, g, test.c, test.part); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
	for i := range uint64(300) {
		if _, err = one(t, g, share.Claim{Key: "full", Limit: limit, Holder: i + 1}, nothing); err != nil {
			break
		}
	}
	if !errors.Is(err, weir.ErrFull) {
		t.Errorf("the 300th holder: %v, want %v", err, weir.ErrFull)
	}
	o, err := one(t, g, share.Claim{Key: "new", Limit: limit, New: 1500}, nothing)
	if err != nil || o.Free.Level < 500 || o.Free.Level > 600 {
		t.Errorf("a new row: %+v, %v, want 500 tokens", o, err)
	}
	down, err := share.NewGrants(brokenLedger{}, share.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := one(t, down, share.Claim{Limit: limit}, nothing); !errors.Is(err, errBroken) {
		t.Errorf("a ledger that is unavailable: %v, want %v", err, errBroken)
	}
	g.Close()
	if err := g.Do(t.Context(), &share.Claim{Limit: limit, Lease: time.Second, Decide: nothing}); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("after Close: %v, want %v", err, weir.ErrClosed)
	}
	for _, c := range []struct {
		ledger share.Ledger
		config share.Config
	}{{nil, share.Config{}}, {mem, share.Config{Drift: -1}}} {
		if _, err := share.NewGrants(c.ledger, c.config); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("NewGrants(%v, %+v) = %v, want %v", c.ledger, c.config, err, weir.ErrInvalid)
		}
	}
}

var errBroken = fmt.Errorf("broken: %w", weir.ErrUnavailable)

type brokenLedger struct{}

func (brokenLedger) Load(context.Context, []string, []share.Stored) (time.Time, error) {
	return time.Time{}, errBroken
}
func (brokenLedger) Swap(context.Context, []share.Swap) error { return errBroken }

// TestGrantsUnits checks that a rate gives the tokens that it was made for, and no more.
func TestGrantsUnits(t *testing.T) {
	g, err := share.NewGrants(share.NewMemory(nil), share.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for _, text := range []string{"100/s", "1000/s burst 7000", "100/h burst 150", "10000000/s burst 100000000", "999/m burst 100"} {
		_, err := one(t, g, share.Claim{Key: text, Limit: weir.MustLimit(text)}, func(o share.Offer) share.Part {
			for _, n := range []int64{1, 2, 7, 64, 1000, 1_000_000} {
				for _, period := range []time.Duration{time.Second, 15 * time.Second, time.Hour} {
					if got := o.Tokens(o.Rate(n, period), period); got < n {
						t.Errorf("%s: Tokens(Rate(%d), %v) = %d, want at least that", text, n, period, got)
					}
					if rate := o.Rate(n, period); o.Rate(o.Tokens(rate, period), period) > rate {
						t.Errorf("%s: Rate(Tokens(%d)) exceeds it", text, rate)
					}
				}
			}
			if got, want := o.Tokens(o.Whole.Rate, 1000*time.Hour), 1000*time.Hour.Seconds()*float64(weir.MustLimit(text).Count())/weir.MustLimit(text).Period().Seconds(); float64(got) > want || float64(got) < want*0.998 {
				t.Errorf("%s: the whole rate is %d in 1000h, want at most %.0f", text, got, want)
			}
			return share.Part{}
		})
		if err != nil {
			t.Error(err)
		}
	}
}
