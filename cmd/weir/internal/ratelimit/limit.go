package ratelimit

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"go.yaml.in/yaml/v4"
)

// units are the units by name, with their lengths.
var units = map[string]time.Duration{
	"second": time.Second, "minute": time.Minute, "hour": time.Hour,
	"day": 24 * time.Hour, "week": 7 * 24 * time.Hour, "month": 30 * 24 * time.Hour, "year": 365 * 24 * time.Hour,
}

var algorithms = []string{
	string(weir.TokenBucket), string(weir.LeakyBucket), string(weir.FixedWindow), string(weir.SlidingWindow), string(weir.SlidingLog),
}

// FixedWindow is the limit of so many hits per window, with windows that begin at whole
// multiples of their length since the Unix epoch.
func FixedWindow(count int64, window time.Duration) (weir.Limit, error) {
	return weir.NewLimit(weir.LimitConfig{Algorithm: weir.FixedWindow, Count: count, Period: window, Anchor: weir.Epoch})
}

// rateLimit reads a rate_limit. It is nil if it has faults.
func (d *decoder) rateLimit(n *node, field string) *Limit {
	before := len(d.errs)
	m := d.mapping(n, field, "requests_per_unit", "unit", "unlimited", "name", "replaces", "algorithm", "window", "burst", "count")
	if len(d.errs) > before && len(m.values) == 0 {
		return nil
	}
	l := &Limit{Unlimited: d.boolean(m, field, "unlimited")}
	if v := m.values["name"]; v != nil {
		l.Name, _ = d.text(v, field+".name")
	}
	d.replaces(m, field, l)
	if v := m.values["count"]; v != nil {
		l.Count = Count(d.word(v, field+".count", string(CountAll), string(CountAdmitted)))
	}
	counted := false
	if v := m.values["requests_per_unit"]; v != nil {
		var c uint64
		c, counted = d.count(v, field+".requests_per_unit", 0, math.MaxUint32)
		l.RequestsPerUnit = uint32(c)
	}
	if l.Unlimited {
		for _, f := range []string{"unit", "window", "algorithm", "burst", "count"} {
			if v := m.values[f]; v != nil {
				d.fail(v, field+"."+f, value(v), "want none: the limit is unlimited")
			}
		}
		l.RequestsPerUnit = 0
	} else {
		d.window(n, m, field, l)
		if m.values["requests_per_unit"] == nil {
			d.fail(n, field+".requests_per_unit", "", "want a whole number from 0 to %d; 0 lets nothing through", math.MaxUint32)
		}
		c := d.rule(m, field, l)
		if counted && l.Window > 0 && l.RequestsPerUnit > 0 && len(d.errs) == before {
			d.build(m, field, l, c)
		}
	}
	if len(d.errs) > before {
		return nil
	}
	return l
}

// window reads unit or window.
func (d *decoder) window(n *node, m mapping, field string, l *Limit) {
	unit, window := m.values["unit"], m.values["window"]
	const want = "want second, minute, hour, day, week, month or year"
	switch {
	case unit != nil && window != nil:
		d.fail(m.keys["window"], field+".window", value(window), "want unit or window, not both: unit is at line %d", m.keys["unit"].Line)
	case window != nil:
		l.Window = d.period(window, field+".window")
	case unit == nil:
		d.fail(n, field+".unit", "", want+`, or a window such as "30s" in its place`)
	default:
		text, ok := d.text(unit, field+".unit")
		if l.Window = units[strings.ToLower(text)]; ok && l.Window == 0 {
			d.fail(unit, field+".unit", value(unit), want)
		}
	}
}

// period reads a time in the grammar of weir.ParseLimit.
func (d *decoder) period(n *node, field string) time.Duration {
	text, ok := d.text(n, field)
	if !ok {
		return 0
	}
	if l, err := weir.ParseLimit("1/" + text + " fixed_window"); err == nil && len(strings.Fields(text)) == 1 {
		if p := l.Config().Period; p > 0 {
			return p
		}
	}
	d.fail(n, field, value(n), "want a time such as 30s, 5m, 12h or 7d, from 1µs to 100 years")
	return 0
}

// rule reads algorithm and burst.
func (d *decoder) rule(m mapping, field string, l *Limit) weir.LimitConfig {
	c := weir.LimitConfig{Algorithm: weir.FixedWindow, Count: int64(l.RequestsPerUnit), Period: l.Window}
	if v := m.values["algorithm"]; v != nil {
		if a := d.word(v, field+".algorithm", algorithms...); a != "" {
			c.Algorithm = weir.Algorithm(a)
		}
	}
	if c.Algorithm == weir.FixedWindow {
		c.Anchor = weir.Epoch
	}
	if v := m.values["burst"]; v != nil {
		if c.Algorithm != weir.TokenBucket && c.Algorithm != weir.LeakyBucket {
			d.fail(v, field+".burst", value(v), "want none: %s has no burst; token_bucket and leaky_bucket have one", c.Algorithm)
		} else if b, ok := d.count(v, field+".burst", 1, math.MaxUint32); ok {
			c.Burst = int64(b)
		}
	}
	return c
}

// build makes the limit of c.
func (d *decoder) build(m mapping, field string, l *Limit, c weir.LimitConfig) {
	var err error
	if l.Limit, err = weir.NewLimit(c); err == nil {
		return
	}
	why := strings.TrimPrefix(err.Error(), "weir: limit: ")
	if errors.Is(err, weir.ErrInvalid) {
		why = strings.TrimPrefix(why, weir.ErrInvalid.Error()+": ")
	}
	n := m.values["requests_per_unit"]
	d.fail(n, field+".requests_per_unit", value(n), "want a limit that %s can keep: %s", c.Algorithm, why)
}

// replaces reads the names of limits that l stands in for.
func (d *decoder) replaces(m mapping, field string, l *Limit) {
	n := m.values["replaces"]
	if n == nil {
		return
	}
	field += ".replaces"
	if n.Kind != yaml.SequenceNode {
		d.fail(n, field, value(n), "want a list of maps with name")
		return
	}
	for i, e := range n.Content {
		if d.spent() {
			return
		}
		name := fmt.Sprintf("%s[%d]", field, i)
		before := len(d.errs)
		one := d.mapping(d.follow(e), name, "name")
		text := ""
		if v := one.values["name"]; v != nil {
			text, _ = d.text(v, name+".name")
		}
		switch {
		case len(d.errs) > before:
		case text == "":
			d.fail(e, name+".name", "", "want the name of a limit")
		case text == l.Name:
			d.fail(e, name+".name", quoted(text), "want the name of another limit: this one is its own")
		case !slices.Contains(l.Replaces, text):
			l.Replaces = append(l.Replaces, text)
		}
	}
}

// word is one of words, or "".
func (d *decoder) word(n *node, field string, words ...string) string {
	if n.Kind != yaml.ScalarNode || !slices.Contains(words, n.Value) {
		d.fail(n, field, value(n), "want %s", list(words))
		return ""
	}
	return n.Value
}
