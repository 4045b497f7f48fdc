package importer

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// This file converts degrade rules to circuit breakers of functions.

// Reasons for rules that a policy file cannot express. A rule that becomes possible is
// converted where its reason is used.
const (
	noMemory    = "its threshold depends on the memory in use (tokenCalculateStrategy 2), and a limit is constant"
	noAuthority = "an authority rule has no limit: allow or reject callers in a proxy in front"
	noGateway   = "a rule of Sentinel's gateway adapter: write it as a policy with match.paths, with paramItem as its key"
)

var degradeFields = []string{"resource", "limitApp", "grade", "count", "timeWindow", "slowRatioThreshold", "minRequestAmount", "statIntervalMs", "passCount", "rtSlowRequestAmount", "retryTimeoutMs", "probeNum", "statSlidingWindowBucketCount", "regex"}

// unknown lists fields that a rule of its kind does not have.
func (s *sentinel) unknown(r *rule, known []string) {
	for _, name := range r.names {
		if !slices.Contains(known, name) && !slices.Contains(administrative, name) {
			s.list(r.place, fmt.Sprintf("%q of %s", short(name), r), "not a field of such a rule, and ignored")
		}
	}
}

// degrade creates a circuit breaker, or lists the rule.
func (s *sentinel) degrade(r *rule) {
	s.unknown(r, degradeFields)
	resource := r.text("resource", "")
	fields, notes, why := breaker(r)
	switch {
	case r.faults != nil:
		why = strings.Join(r.faults, "; ")
	case resource == "":
		why = "Sentinel ignores a rule without a resource"
	case r.flag("regex"):
		why = "the resource is a regular expression: write a rule for each name"
	case s.named[resource] != nil && s.named[resource].breaker != "":
		why = "the resource has a breaker already (above), and a rule of functions.rules has one"
	}
	if why != "" {
		s.list(r.place, r.String(), "%s", why)
		return
	}
	s.function(r, resource, notes).breaker = "{ " + strings.Join(fields, ", ") + " }"
}

// breaker returns the fields of a breaker, or why there is none.
func breaker(r *rule) (fields, notes []string, why string) {
	count, interval, least := r.count(), r.number("statIntervalMs", 1000), r.number("minRequestAmount", 5)
	cooldown := r.number("retryTimeoutMs", 0)
	if !r.has("retryTimeoutMs") {
		cooldown = 1000 * r.number("timeWindow", 0)
	}
	ratio, rate, slow := count, "rate", ""
	switch grade := r.number("grade", 0); grade {
	case 0:
		ratio = r.rational("slowRatioThreshold", big.NewRat(1, 1))
		if count.Num().BitLen() > 62 || floor(count) >= 1<<31 {
			return nil, nil, "want a count of milliseconds"
		}
		// Sentinel rounds the count. A call is slow if it takes more milliseconds.
		rate, slow = "slow_rate", fmt.Sprintf("%dms", floor(new(big.Rat).Add(count, big.NewRat(1, 2)))+1)
	case 1:
	case 2:
		// Sentinel opens above the count, sentinel-golang at it.
		failures := new(big.Int).Quo(count.Num(), count.Denom())
		if r.source == "" {
			failures.Add(failures, big.NewInt(1))
		}
		if count.Sign() < 0 || failures.Sign() == 0 {
			return nil, nil, fmt.Sprintf("want a number of errors, got %s", decimal(count))
		}
		if big.NewInt(least).Cmp(failures) > 0 {
			notes = append(notes, fmt.Sprintf("differs: it opens after %s errors, Sentinel after %d calls at the earliest.", failures, least))
		}
		return r.times([]string{"failures: " + failures.String(), fmt.Sprintf("period: %dms", interval)}, cooldown), notes, ""
	default:
		return nil, nil, "want a grade of 0 (slow calls), 1 (ratio of errors) or 2 (number of errors)"
	}
	percent := new(big.Rat).Mul(ratio, big.NewRat(100, 1))
	whole := new(big.Int).Quo(new(big.Int).Add(percent.Num(), new(big.Int).Sub(percent.Denom(), big.NewInt(1))), percent.Denom())
	if ratio.Sign() <= 0 || ratio.Cmp(big.NewRat(1, 1)) > 0 {
		return nil, nil, fmt.Sprintf("want a ratio above 0 and up to 1, got %s", decimal(ratio))
	}
	switch { // of 100 %, Sentinel opens at that too
	case whole.Int64() < 100 && r.source == "":
		notes = append(notes, fmt.Sprintf("differs: it opens at %s %%; Sentinel opens above %s %%.", whole, decimal(percent)))
	case !percent.IsInt():
		notes = append(notes, fmt.Sprintf("differs: it opens at %s %%; Sentinel opens at %s %%.", whole, decimal(percent)))
	}
	fields = []string{rate + ": " + whole.String(), fmt.Sprintf("of: %d", max(1, least)), fmt.Sprintf("period: %dms", interval)}
	if slow != "" {
		fields = append(fields, "slow: "+slow)
	}
	return r.times(fields, cooldown), notes, ""
}

// times adds the fields of a breaker that is open.
func (r *rule) times(fields []string, cooldown int64) []string {
	fields = append(fields, fmt.Sprintf("cooldown: %dms", cooldown))
	if n := r.number("probeNum", 0); n > 0 {
		fields = append(fields, fmt.Sprintf("trials: %d", n))
	}
	return fields
}
