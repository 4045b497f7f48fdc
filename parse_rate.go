package weir

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir/internal/algo"
)

// rate reads COUNT/PERIOD. The count of a bucket may have a decimal point: 1.5/m is 3 per 2m. Its
// burst is then the count rounded up, not that of the longer period.
func (p *parser) rate(c *parsed, count, period string) (err error) {
	whole, decimals, fraction := strings.Cut(strings.TrimSuffix(count, "r"), ".")
	if c.count, err = p.number("count", whole+decimals); errors.Is(err, algo.ErrRange) {
		return err
	}
	if err != nil || fraction && (whole == "" || decimals == "" || len(decimals) > 6 || strings.Contains(decimals, "_")) {
		return p.errorf("count: want a whole number, or one with up to 6 decimals, got %q", count)
	}
	if err := p.period(c, period); err != nil || !fraction {
		return err
	}
	c.fraction = 1
	for range len(decimals) {
		c.fraction *= 10
	}
	burst := c.count / c.fraction
	if c.count%c.fraction > 0 {
		burst++
	}
	for _, prime := range []int64{2, 5} {
		for c.fraction%prime == 0 && c.count%prime == 0 {
			c.count, c.fraction = c.count/prime, c.fraction/prime
		}
	}
	switch {
	case c.fraction == 1:
		return nil
	case c.period == 0:
		return p.errorf("count: want a whole number per month, got %q", count)
	case c.period > math.MaxInt64/time.Duration(c.fraction):
		return p.errorf("period: want at most 100 years for %d tokens, got %q", c.count, period)
	}
	c.period *= time.Duration(c.fraction)
	c.calendar, c.ceiling = "", burst
	return nil
}

func (p *parser) number(name, word string) (int64, error) {
	n, err := strconv.ParseInt(strings.ReplaceAll(word, "_", ""), 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, p.errorf("%s: %w: want at most %d, got %q", name, algo.ErrRange, int64(algo.MaxCount), word)
	}
	if err != nil || strings.HasPrefix(word, "_") || strings.HasPrefix(word, "+") {
		return 0, p.errorf("%s: want a whole number, got %q", name, word)
	}
	return n, nil
}

var units = map[string]time.Duration{
	"us": time.Microsecond, "µs": time.Microsecond, "ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour,
	"d": 24 * time.Hour, "w": 7 * 24 * time.Hour,
	"second": time.Second, "minute": time.Minute, "hour": time.Hour, "sec": time.Second, "min": time.Minute, "hr": time.Hour,
	"day": 24 * time.Hour, "week": 7 * 24 * time.Hour, "year": 365 * 24 * time.Hour,
}

// period reads the text after the slash.
func (p *parser) period(c *parsed, word string) error {
	if word == month {
		c.calendar = month
		return nil
	}
	d, err := p.duration("period", word)
	if err != nil {
		return err
	}
	c.period = d
	switch word {
	case day, week, year:
		c.calendar = word // in case the word calendar follows
	}
	return nil
}

// duration reads a unit, a whole number of days or weeks, or a Go duration.
func (p *parser) duration(name, word string) (time.Duration, error) {
	if d, ok := units[word]; ok {
		return d, nil
	}
	for _, unit := range []string{"d", "w"} {
		if n, err := strconv.ParseInt(strings.TrimSuffix(word, unit), 10, 64); err == nil && strings.HasSuffix(word, unit) {
			if n > int64(math.MaxInt64/units[unit]) || n < 0 {
				return 0, p.errorf("%s: want at most 100 years, got %q", name, word)
			}
			return time.Duration(n) * units[unit], nil
		}
	}
	d, err := time.ParseDuration(word)
	if err != nil {
		return 0, p.errorf("%s: want a duration such as 1m30s, or s, minute, day, month and the like, got %q%s", name, word,
			suggest(word, []string{"second", "minute", "hour", "day", "week", "month", "year"}))
	}
	if d <= 0 {
		return 0, p.errorf("%s: want more than 0, got %q", name, word)
	}
	return d, nil
}
