package rlqs

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
	"github.com/floodweir/weir/share"
)

// Config is the configuration of a Server. Ledger and Domains are required.
type Config struct {
	// Ledger has the rows of the limits. Servers with the same one share limits.
	Ledger share.Ledger

	// Volatile says that the ledger is empty after a start, although clients may still use what
	// they got before. Nothing is granted then for a lease.
	Volatile bool

	// Domains lists the domains of the service.
	Domains []string

	// TTL is the time to live of an assignment, in whole seconds from MinTTL to MaxTTL; DefaultTTL
	// if zero.
	TTL time.Duration

	// AfterExpiry declares how clients decide after an assignment has expired. It is a setting of the
	// clients, which the server cannot see.
	AfterExpiry AfterExpiry

	// Drift bounds the difference between the rates of the clocks of a client, a server and the
	// ledger, in parts per million; share.DefaultDrift if zero.
	Drift int

	// Shadow admits every request, and counts what clients report.
	Shadow bool

	// Log receives errors of the ledger, at most one per second; nothing is logged if nil.
	Log *slog.Logger

	// Observe receives events, if not nil. It must be fast.
	Observe func(Event)
}

// AfterExpiry declares how clients decide after an assignment has expired. The zero value denies.
type AfterExpiry struct {
	// Reuse is the time for which the last assignment stays in use; at most MaxReuse.
	Reuse time.Duration

	// Allow means that clients admit every request. There is then no bound.
	Allow bool
}

// Bounds of times.
const (
	// Delivery is the time in which an assignment reaches its client. The connection has to be
	// closed if it takes longer: see Ping.
	Delivery = 3 * time.Second

	// Ping is the time without data from a client after which the connection has to be checked, and
	// the time after that in which it has to be closed.
	Ping = time.Second

	// ReportInterval is the time between two reports of Envoy.
	ReportInterval = 5 * time.Second

	// MinTTL keeps an assignment alive if one report is lost.
	MinTTL     = 2*ReportInterval + Delivery + time.Second
	DefaultTTL = 15 * time.Second
	MaxTTL     = time.Hour
	MaxReuse   = time.Hour

	// sendWithin is the time from the begin of a claim within which its assignment is sent.
	sendWithin = time.Second

	// unlimitedTTL is the time to live of assignments that do not depend on a ledger.
	unlimitedTTL = 300 * time.Second

	// idleAfter is the time without requests after which a bucket is abandoned.
	idleAfter = 60 * time.Second
)

// Bounds of a stream and of a Server.
const (
	// MaxPairs is the largest number of pairs of a bucket's id.
	MaxPairs = 30
	// MaxText is the longest key or value of a pair, in bytes.
	MaxText = 4 << 10
	// MaxBuckets is the largest number of buckets of a stream. Requests of further ones are denied.
	MaxBuckets = 10_000
	// maxAll is the largest number of buckets of all streams.
	maxAll = 100_000
	// batch is the number of buckets of a response: a call of the ledger has as many rows.
	batch = share.MaxBatch
	// maxCount bounds the counts of a report.
	maxCount = 1 << 40
)

func (c Config) normalize() (Config, error) {
	bad := func(field string, value any, want string) (Config, error) {
		return c, fmt.Errorf("rlqs: %s: %w: got %v, want %s", field, weir.ErrInvalid, value, want)
	}
	if c.TTL == 0 {
		c.TTL = DefaultTTL
	}
	if c.Drift == 0 {
		c.Drift = share.DefaultDrift
	}
	switch {
	case len(c.Domains) == 0:
		return bad("Domains", "none", "at least one")
	case slices.Contains(c.Domains, ""):
		return bad("Domains", `""`, "names")
	case c.TTL < MinTTL || c.TTL > MaxTTL || c.TTL%time.Second != 0:
		return bad("TTL", c.TTL, fmt.Sprintf("whole seconds from %v to %v", MinTTL, MaxTTL))
	case c.AfterExpiry.Reuse < 0 || c.AfterExpiry.Reuse > MaxReuse || c.AfterExpiry.Reuse > 0 && c.AfterExpiry.Allow:
		return bad("AfterExpiry", fmt.Sprintf("%+v", c.AfterExpiry), fmt.Sprintf("one of Allow and Reuse, of at most %v", MaxReuse))
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// lease returns the time after which a client surely no longer uses an assignment, since the begin
// of the claim.
func (c *Config) lease() time.Duration {
	life := sendWithin + Delivery + c.TTL + c.AfterExpiry.Reuse
	return life + 3*life/time.Duration(million/c.Drift) + time.Second
}

const million = 1_000_000

// Check returns the errors of the limits of domains that cannot be divided among clients.
func Check(limits *ratelimit.Config, domains []string) error {
	var errs []error
	for i, name := range domains {
		d := limits.Domain(name)
		if d == nil {
			errs = append(errs, fmt.Errorf("grpc.quota_service.domains[%d]: %q: want a domain of the files of grpc.config", i, name))
			continue
		}
		errs = append(errs, check(d.Name, "", d.Descriptors)...)
	}
	return errors.Join(errs...)
}

func check(domain, path string, all []*ratelimit.Descriptor) (errs []error) {
	for _, d := range all {
		name := d.Key
		if d.Value != "" {
			name += "_" + d.Value
		}
		if path != "" {
			name = path + "." + name
		}
		if l := d.Limit; l != nil && !l.Unlimited && !l.Blocks() && !l.Shadow {
			_, err := fits(l.Limit)
			if err == nil && l.Count == ratelimit.CountAll {
				err = errors.New("clients do not count requests that they deny: want no count: all")
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("domain %q: %s: %q does not fit the quota service: %w", domain, name, l.Limit.Brief(), err))
			}
		}
		errs = append(errs, check(domain, name, d.Descriptors)...)
	}
	return errs
}

// steps is the number of parts of a rate that an interval has, if the burst allows it.
const steps = 256

// fits returns the fill interval of a limit's assignments, or why it cannot be assigned.
func fits(l weir.Limit) (every time.Duration, err error) {
	switch l.Config().(type) {
	case weir.TokenBucket, weir.LeakyBucket:
	case weir.FixedWindow, weir.SlidingWindow:
		half, unit := max(1, l.Count()/2), l.Period()
		return 0, fmt.Errorf("clients have token buckets, which cross the ends of windows: want algorithm: token_bucket; "+
			"%d requests per %v with burst: %[1]d never exceed a window of %[3]d", half, unit, l.Count())
	default:
		return 0, fmt.Errorf("clients have token buckets, of which a %s has no parts: want algorithm: token_bucket", l.Algorithm())
	}
	if err := share.Supports(l); err != nil {
		return 0, fmt.Errorf("%w; use the rate limit service for it", err)
	}
	count, period, burst := l.Count(), l.Period(), l.Capacity()
	seconds := func(tokens int64) int64 { // in which the limit gives so many
		return int64(math.Ceil(float64(tokens) * period.Seconds() / float64(count)))
	}
	least := max(1, seconds(1))
	most := int64(float64(burst) / 4 * period.Seconds() / float64(count)) // so that a fill is a quarter of the burst
	if perFill := int64(math.Ceil(float64(count) / period.Seconds() * float64(least))); burst < perFill {
		return 0, fmt.Errorf("a client's bucket fills once a second, so a smaller burst loses tokens: want burst: %d or more, got %d", perFill, burst)
	}
	return time.Duration(max(least, min(seconds(steps), most))) * time.Second, nil
}
