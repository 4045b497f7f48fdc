package ratelimit

import (
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/weirfile/strict"
)

// units has the length of each unit.
var units = map[string]time.Duration{
	"second": time.Second, "minute": time.Minute, "hour": time.Hour,
	"day": 24 * time.Hour, "week": 7 * 24 * time.Hour, "month": 30 * 24 * time.Hour, "year": 365 * 24 * time.Hour,
}

var algorithms = []string{
	"token_bucket", "leaky_bucket", "fixed_window", "sliding_window", "sliding_log",
}

// FixedWindow returns a limit of hits per window. Windows begin at multiples of their
// length since the Unix epoch.
func FixedWindow(count int64, window time.Duration) (weir.Limit, error) {
	return weir.NewLimit(weir.FixedWindow{Count: count, Period: window, Epoch: true})
}

// rateLimit reads a rate_limit. It returns nil if it has faults.
func (d decoder) rateLimit(n strict.Node, field string) *Limit {
	before := len(d.Faults())
	m := d.fields(n, field, "requests_per_unit", "unit", "unlimited", "name", "replaces", "algorithm", "window", "burst", "count")
	if len(d.Faults()) > before && len(m.Values) == 0 {
		return nil
	}
	l := &Limit{Unlimited: d.boolean(m, field, "unlimited")}
	if v := m.Values["name"]; v.There() {
		l.Name, _ = d.text(v, field+".name")
	}
	d.replaces(m, field, l)
	if v := m.Values["count"]; v.There() {
		l.Count = Count(d.word(v, field+".count", string(CountAll), string(CountAdmitted)))
	}
	counted := false
	if v := m.Values["requests_per_unit"]; v.There() {
		var c uint64
		c, counted = d.count(v, field+".requests_per_unit", 0, math.MaxUint32)
		l.RequestsPerUnit = uint32(c)
	}
	if l.Unlimited {
		for _, f := range []string{"unit", "window", "algorithm", "burst", "count"} {
			if v := m.Values[f]; v.There() {
				d.Fail(v, field+"."+f, v.String(), "want none: the limit is unlimited")
			}
		}
		l.RequestsPerUnit = 0
	} else {
		d.window(n, m, field, l)
		if !m.Values["requests_per_unit"].There() {
			d.Fail(n, field+".requests_per_unit", "", "want a whole number from 0 to %d; 0 denies every request", math.MaxUint32)
		}
		c, algorithm := d.rule(m, field, l)
		if counted && l.Window > 0 && l.RequestsPerUnit > 0 && len(d.Faults()) == before {
			d.build(m, field, l, c, algorithm)
		}
	}
	if len(d.Faults()) > before {
		return nil
	}
	return l
}

// window reads unit or window.
func (d decoder) window(n strict.Node, m strict.Mapping, field string, l *Limit) {
	unit, window := m.Values["unit"], m.Values["window"]
	const want = "want second, minute, hour, day, week, month or year"
	switch {
	case unit.There() && window.There():
		d.Fail(m.Names["window"], field+".window", window.String(), "want unit or window, not both: unit is at line %d", m.Names["unit"].Line())
	case window.There():
		l.Window = d.period(window, field+".window")
	case !unit.There():
		d.Fail(n, field+".unit", "", want+`, or a window such as "30s" in its place`)
	default:
		text, ok := d.text(unit, field+".unit")
		if l.Window = units[strings.ToLower(text)]; ok && l.Window == 0 {
			d.Fail(unit, field+".unit", unit.String(), want)
		}
	}
}

// period reads a time in the grammar of weir.ParseLimit.
func (d decoder) period(n strict.Node, field string) time.Duration {
	text, ok := d.text(n, field)
	if !ok {
		return 0
	}
	if l, err := weir.ParseLimit("1/" + text + " fixed_window"); err == nil && len(strings.Fields(text)) == 1 {
		if p := l.Period(); p > 0 {
			return p
		}
	}
	d.Fail(n, field, n.String(), "want a time such as 30s, 5m, 12h or 7d, from 1µs to 100 years")
	return 0
}

// rule reads algorithm and burst.
func (d decoder) rule(m strict.Mapping, field string, l *Limit) (c weir.LimitConfig, algorithm string) {
	algorithm = "fixed_window"
	if v := m.Values["algorithm"]; v.There() {
		if a := d.word(v, field+".algorithm", algorithms...); a != "" {
			algorithm = a
		}
	}
	var burst uint64
	if v := m.Values["burst"]; v.There() {
		if algorithm != "token_bucket" && algorithm != "leaky_bucket" {
			d.Fail(v, field+".burst", v.String(), "want none: %s has no burst; token_bucket and leaky_bucket have one", algorithm)
		} else {
			burst, _ = d.count(v, field+".burst", 1, math.MaxUint32)
		}
	}
	count := int64(l.RequestsPerUnit)
	switch algorithm {
	case "token_bucket":
		c = weir.TokenBucket{Count: count, Period: l.Window, Burst: int64(burst)}
	case "leaky_bucket":
		c = weir.LeakyBucket{Count: count, Period: l.Window, Burst: int64(burst)}
	case "sliding_window":
		c = weir.SlidingWindow{Count: count, Period: l.Window}
	case "sliding_log":
		c = weir.SlidingLog{Count: count, Period: l.Window}
	default:
		c = weir.FixedWindow{Count: count, Period: l.Window, Epoch: true}
	}
	return c, algorithm
}

// build creates the limit of c.
func (d decoder) build(m strict.Mapping, field string, l *Limit, c weir.LimitConfig, algorithm string) {
	var err error
	if l.Limit, err = weir.NewLimit(c); err == nil {
		return
	}
	why := strings.TrimPrefix(err.Error(), "weir: limit: ")
	if errors.Is(err, weir.ErrInvalid) {
		why = strings.TrimPrefix(why, weir.ErrInvalid.Error()+": ")
	}
	n := m.Values["requests_per_unit"]
	d.Fail(n, field+".requests_per_unit", n.String(), "want a limit that %s can keep: %s", algorithm, why)
}

// replaces reads the names of limits that l replaces.
func (d decoder) replaces(m strict.Mapping, field string, l *Limit) {
	n := m.Values["replaces"]
	if !n.There() {
		return
	}
	field += ".replaces"
	if n.Kind() != strict.List {
		d.Fail(n, field, n.String(), "want a list of maps with name")
		return
	}
	for i, e := range d.List(n) {
		name := strict.Index(field, i)
		before := len(d.Faults())
		one := d.fields(e, name, "name")
		text := ""
		if v := one.Values["name"]; v.There() {
			text, _ = d.text(v, name+".name")
		}
		switch {
		case len(d.Faults()) > before:
		case text == "":
			d.Fail(e.Here(), name+".name", "", "want the name of a limit")
		case text == l.Name:
			d.Fail(e.Here(), name+".name", strict.Quoted(text), "want the name of another limit: this one is its own")
		case !slices.Contains(l.Replaces, text):
			l.Replaces = append(l.Replaces, text)
		}
	}
}

// word returns one of words, or "".
func (d decoder) word(n strict.Node, field string, words ...string) string {
	if !slices.Contains(words, n.Text()) {
		d.Fail(n, field, n.String(), "want %s", strict.OneOf(words))
		return ""
	}
	return n.Text()
}
