package rlqs

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"github.com/floodweir/weir"
	"github.com/floodweir/weir/share"
)

// A part is a token bucket of the ledger: what a client may use.
type part struct {
	perSecond, size, level float64
	last, end              time.Time
}

func (p *part) refill(now time.Time) {
	if now.After(p.end) {
		*p = part{end: p.end, last: now} // another process may have taken it
	}
	p.level = min(p.size, p.level+p.perSecond*now.Sub(p.last).Seconds())
	p.last = now
}

// A user is a client that takes all tokens that the protocol lets it have.
type user struct {
	full, steps bool
	has         assignment
	level       float64
	last        time.Time
	until       time.Time
}

func (u *user) refill(now time.Time) {
	if u.steps {
		n := now.Sub(u.last) / max(1, u.has.every)
		u.level = min(float64(u.has.burst), u.level+float64(n)*float64(u.has.tokens))
		u.last = u.last.Add(n * u.has.every)
		return
	}
	u.level = min(float64(u.has.burst), u.level+now.Sub(u.last).Seconds()*float64(u.has.tokens)/max(1, u.has.every.Seconds()))
	u.last = now
}

// take returns the whole tokens that the client takes.
func (u *user) take(now time.Time) float64 {
	if !now.Before(u.until) {
		u.has, u.level = assignment{}, 0
	}
	u.refill(now)
	n := float64(int64(u.level))
	u.level -= n
	return n
}

// receive applies an assignment.
func (u *user) receive(a assignment, now time.Time, ttl time.Duration) {
	expired := !now.Before(u.until)
	switch {
	case a == u.has && !expired:
	case u.full || expired || u.has.burst == 0 || a.burst == 0:
		u.has, u.level, u.last = a, float64(a.burst), now
	default:
		u.refill(now)
		u.level *= float64(a.burst) / float64(u.has.burst)
		u.has, u.last = a, now
	}
	u.until = now.Add(ttl)
}

// A delivery is an assignment on its way.
type delivery struct {
	at time.Time
	assignment
}

// TestPromisesAreCovered checks each part of the ledger alone: what a client takes, at the worst
// instants and with the slowest deliveries, its part has. Neighbors change the remainder.
func TestPromisesAreCovered(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			limit := weir.MustLimit([]string{"1000/s burst 3000", "100/s burst 150", "600/m burst 600"}[seed%3])
			grants, err := share.NewGrants(share.NewMemory(nil), share.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer grants.Close()
			config, err := Config{Domains: []string{"d"}, AfterExpiry: AfterExpiry{Reuse: time.Duration(seed%2) * 10 * time.Second}}.normalize()
			if err != nil {
				t.Fatal(err)
			}
			b := newBucket(&config, nil, "", nil, time.Now())
			b.claim.Key, b.claim.Limit = "k", limit
			if b.grant.every, err = fits(limit); err != nil {
				t.Fatal(err)
			}
			c := coverage{
				t: t, r: r, b: b, grants: grants, perSecond: float64(limit.Count()) / limit.Period().Seconds(),
				user: user{full: seed%2 == 0, steps: seed%4 < 2}, part: part{last: time.Now()},
			}
			for range 300 {
				c.until(time.Now().Add(time.Duration(r.IntN([]int{1000, 5000, 5000, 20_000}[r.IntN(4)])) * time.Millisecond))
				c.neighbor(limit)
				c.report()
			}
			c.until(time.Now().Add(2 * config.lease()))
			if c.outcomes[changed] < 20 || c.outcomes[renewed] < 20 || c.taken < 400 {
				t.Errorf("seed %d: outcomes %v, %.0f tokens: want 20 changes, 20 renewals and 400 tokens", seed, c.outcomes, c.taken)
			}
		})
	}
}

// coverage is the state of TestPromisesAreCovered.
type coverage struct {
	t         *testing.T
	r         *rand.Rand
	b         *bucket
	grants    *share.Grants
	perSecond float64 // of the limit
	user      user
	part      part
	onTheWay  []delivery
	taken     float64
	outcomes  [4]int
}

// until lets the client take tokens, and receive what arrives, until an instant.
func (c *coverage) until(end time.Time) {
	for {
		next, arrives := end, false
		if drain := time.Now().Add(1 + time.Duration(c.r.Int64N(int64([]time.Duration{3 * time.Second, time.Minute}[c.r.IntN(2)])))); drain.Before(end) {
			next = drain
		}
		if len(c.onTheWay) > 0 && !c.onTheWay[0].at.After(next) {
			next, arrives = c.onTheWay[0].at, true
		}
		Pass(time.Until(next))
		c.take()
		if arrives {
			c.user.receive(c.onTheWay[0].assignment, next, c.b.grant.c.TTL+c.b.grant.c.AfterExpiry.Reuse)
			c.onTheWay = c.onTheWay[1:]
			if c.r.IntN(2) == 0 {
				c.take()
			}
		} else if !next.Before(end) {
			return
		}
	}
}

func (c *coverage) take() {
	now := time.Now()
	n := c.user.take(now)
	c.part.refill(now)
	if n > c.part.level+1e-3 {
		c.t.Fatalf("the client takes %.0f tokens, its part has %.2f: %+v, %+v, promises %+v", n, c.part.level, c.user, c.part, c.b.grant.promises)
	}
	c.part.level -= n
	c.taken += n
}

// neighbor changes the remainder.
func (c *coverage) neighbor(limit weir.Limit) {
	claim := share.Claim{
		Key: "k", Limit: limit, Holder: 1 + c.r.Uint64N(3), Lease: time.Duration(1+c.r.IntN(60)) * time.Second, Demand: c.perSecond * c.r.Float64(),
		Decide: func(o share.Offer) (p share.Part) {
			p.Rate, p.Size = c.r.Int64N(1+max(0, o.Held.Rate+o.Free.Rate)), c.r.Int64N(1+max(0, o.Held.Size+o.Free.Size))
			p.Level = c.r.Int64N(1 + o.Free.Level)
			return p
		},
	}
	if err := c.grants.Do(c.t.Context(), &claim); err != nil || claim.Err != nil {
		c.t.Fatalf("neighbor: %v, %v", err, claim.Err)
	}
}

// report sends a report of the client, and a response that is delayed, or not sent at all.
func (c *coverage) report() {
	begin, b := time.Now(), c.b
	b.count(&pb.RateLimitQuotaUsageReports_BucketQuotaUsage{NumRequestsAllowed: uint64(c.r.Float64() * c.perSecond * 5)}, begin)
	if !b.prepare(begin, time.Time{}) {
		return
	}
	b.claim.Decide = func(o share.Offer) share.Part {
		p := b.grant.decide(o)
		c.part.refill(begin)
		c.part.perSecond, c.part.size = float64(p.Rate)/float64(o.Whole.Rate)*c.perSecond, float64(p.Size)
		c.part.level = min(c.part.level+float64(p.Level), c.part.size)
		c.part.end = begin.Add(b.claim.Lease)
		return p
	}
	if err := c.grants.Do(c.t.Context(), &b.claim); err != nil || b.claim.Err != nil {
		c.t.Fatalf("claim: %v, %v", err, b.claim.Err)
	}
	next := b.grant.next
	if c.outcomes[next.outcome]++; next.outcome == silent || c.r.IntN(10) == 0 {
		return // the ledger took too long
	}
	b.promise()
	at := begin.Add(time.Duration(c.r.Int64N(int64(sendWithin + Delivery))))
	if n := len(c.onTheWay); n > 0 && at.Before(c.onTheWay[n-1].at) {
		at = c.onTheWay[n-1].at // in their order
	}
	c.onTheWay = append(c.onTheWay, delivery{at, b.grant.current})
}

// Pass lets time pass in a bubble of testing/synctest.
func Pass(d time.Duration) { <-time.After(d) }

// TestEmptyAfterStart checks that a limit of a ledger that was empty at the start has only the
// tokens that have been refilled since clients use nothing of before.
func TestEmptyAfterStart(t *testing.T) {
	config, err := Config{Domains: []string{"d"}}.normalize()
	if err != nil {
		t.Fatal(err)
	}
	b := newBucket(&config, nil, "", nil, time.Now())
	b.claim.Limit = weir.MustLimit("1000/s burst 3000")
	quiet := time.Now()
	for after, want := range map[time.Duration]int64{0: 3000, time.Second: 2000, 3 * time.Second: 0, time.Hour: 0} {
		if b.prepare(quiet.Add(after), quiet); b.claim.New != want {
			t.Errorf("%v later, %d tokens are missing, want %d", after, b.claim.New, want)
		}
	}
	if b.prepare(quiet, time.Time{}); b.claim.New != 0 {
		t.Errorf("with a ledger that stays, %d tokens are missing, want none", b.claim.New)
	}
}
