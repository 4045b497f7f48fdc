package weirfile

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile/strict"
)

// readPrices reads the prices of language models.
func (d *decoder) readPrices(p place) *budget.Prices {
	if !p.there() {
		return nil
	}
	before := len(d.Faults())
	m := d.mapping(p)
	unknown, _ := d.text(m.at("unknown_model"))
	var list []budget.Price
	places := map[string]strict.Node{"unknown_model": m.Values["unknown_model"]}
	for i, e := range d.elements(m.at("models")) {
		at := fmt.Sprintf("models[%d]", i)
		one := d.mapping(e)
		price := d.price(one, at, places)
		for _, name := range d.elements(one.at("model")) {
			s, _ := d.text(name)
			price.Models = append(price.Models, s)
		}
		price.Above = d.integer(one.at("above"))
		if long := one.at("long"); long.there() {
			price.Long = new(d.price(d.mapping(long), at+".long", places))
			places[at+".long"] = long.node
		}
		places[at], places[at+".model"] = e.node, one.Values["model"]
		list = append(list, price)
	}
	if len(d.Faults()) > before {
		return nil
	}
	table, err := budget.NewPrices(unknown, list...)
	var errs fault.Errors
	if errors.As(err, &errs) {
		for _, e := range errs {
			at := places[e.Field]
			for f := range outer(e.Field) {
				if !at.There() {
					at = places[f]
				}
			}
			d.Fail(at, strict.Join(p.field, e.Field), e.Value, "%s", e.Want)
		}
		return nil
	}
	return table
}

// price reads the prices in m, and records their places.
func (d *decoder) price(m mapping, at string, places map[string]strict.Node) budget.Price {
	read := func(name string) string {
		places[at+"."+name] = m.Values[name]
		s, _ := d.scalar(m.at(name), m.shape.Field(name).Want)
		return s
	}
	return budget.Price{
		Input: read("input"), Cached: read("cached"), CacheWrite: read("cache_write"),
		CacheWrite1h: read("cache_write_1h"), Output: read("output"),
	}
}

// budget returns a policy for each level of a budget. Policies that match a request are charged
// together, so levels are too.
func (r *policyReader) budget(m mapping, c policy.Config) []policy.Config {
	p := r.record(m.at("budget"))
	for _, name := range []string{"key", "limits", "nginx", "block", "cost", "count", "failures", "candidate", "overrides", "tenants"} {
		if other := m.at(name); other.there() {
			r.failIn(other, "", "want it or budget, not both: each level of a budget has a key and limits")
		}
	}
	before := len(r.Faults())
	b := r.mapping(p)
	unit, _ := r.word(b.at("unit"))
	format, _ := r.word(b.at("format"))
	mc := budget.MeterConfig{Format: budget.Format(format), Unit: budget.Unit(unit), Prices: r.prices}
	if p := b.at("reserve"); p.there() {
		reserve := r.mapping(p)
		mc.MaxInput, mc.MaxOutput = r.integer(reserve.at("max_input")), r.integer(reserve.at("max_output"))
		mc.MaxBody, mc.Step = r.integer(reserve.at("max_body")), r.integer(reserve.at("step"))
	}
	mc.Exhausted, _ = r.word(b.at("exhausted"))
	mc.Disconnected, _ = r.word(b.at("disconnected"))
	mc.IncludeUsage = r.boolean(b.at("include_usage"))
	mc.IncludeMax, _ = r.word(b.at("include_max"))
	if p := b.at("exhausted"); p.there() && mc.Step == 0 {
		r.failIn(p, mc.Exhausted, "want reserve.step with it: other streams are not ended")
	}
	mc.Warn = r.warn(b.at("warn"), c.Name)
	if mc.Unit == budget.USD && r.prices == nil && !r.pricesFailed {
		r.failIn(b.at("unit"), unit, "want a section prices in this file with it")
	}
	r.unit = mc.Unit
	levels := r.elements(b.at("levels"))
	names := map[string]bool{}
	var all []policy.Config
	for _, e := range levels {
		level, one := r.mapping(e), c
		name, _ := r.text(level.at("name"))
		if names[name] {
			r.failIn(level.at("name"), strict.Quoted(name), "want every name once")
		}
		names[name] = true
		one.Name, one.Key = one.Name+"."+name, nil
		r.key(level.at("key"), &one)
		one.Limits, one.Block, one.Unlimited = r.allowance(r.record(level.at("limits")))
		r.overrides(level.at("overrides"), &one)
		all = append(all, one)
	}
	if len(r.Faults()) > before || r.pricesFailed && mc.Unit == budget.USD {
		return nil
	}
	meter, err := budget.NewMeter(mc)
	var errs fault.Errors
	if errors.As(err, &errs) {
		for _, e := range errs {
			e.Field = "budget." + e.Field
		}
		r.report(errs, nil)
		return nil
	}
	least := meter.Least()
	for i := range all {
		all[i].Settle.Meter = meter
		for j, l := range all[i].Limits {
			if field := fmt.Sprintf("budget.levels[%d].limits[%d]", i, j); !l.IsZero() && !l.IsConcurrency() && l.Capacity() < least {
				n := r.places[field]
				r.Fail(n, r.at(field), strict.Quoted(n.Text()), "want at least %s, the bound of a request by reserve: it never admits one", amountOf(mc.Unit, least))
			}
		}
	}
	return all
}

// warn reads when a budget warns.
func (r *policyReader) warn(p place, name string) *budget.Warning {
	if !p.there() {
		return nil
	}
	m := r.mapping(r.record(p))
	for _, name := range m.Order {
		r.record(m.at(name))
	}
	w := &budget.Warning{Budget: name}
	for _, e := range r.elements(m.at("at")) {
		w.At = append(w.At, int(r.integer(e)))
	}
	w.Webhook, _ = r.text(m.at("webhook"))
	w.Secret, _ = r.text(m.at("secret"))
	if p := m.at("allow_http"); p.there() {
		w.AllowHTTP = r.boolean(p)
	}
	if p := m.at("secret_file"); p.there() {
		r.places["budget.warn.secret"] = p.node
		if m.at("secret").there() {
			r.failIn(p, p.node.String(), "want it or secret, not both")
		}
		w.Secret = r.secret(p)
	}
	return w
}

// secret reads the file that p names, without white space around its text.
func (r *policyReader) secret(p place) string {
	name, ok := r.text(p)
	switch {
	case !ok:
		return ""
	case r.read == nil:
		r.failIn(p, strict.Quoted(name), "want secret here: only a policy file on disk can name another file")
		return ""
	}
	data, err := r.read(inDir(r.Name(), name))
	if err != nil {
		r.failIn(p, strict.Quoted(name), "want a file with the secret: %s", strict.Printable(strings.TrimPrefix(err.Error(), "weirfile: ")))
	}
	return strings.TrimSpace(string(data))
}

// amountOf returns an amount of a unit as text.
func amountOf(unit budget.Unit, n int64) string {
	if unit == budget.USD {
		return strconv.FormatFloat(float64(n)/1e6, 'f', -1, 64) + " US dollars"
	}
	return fmt.Sprintf("%d %s", n, unit)
}

// amount reads a limit in the unit of a budget.
func (r *policyReader) amount(p place) weir.Limit {
	text, ok := r.text(p)
	if !ok {
		return weir.Limit{}
	}
	l, want := limitIn(r.unit, text)
	if want != "" {
		r.failIn(p, strict.Quoted(text), "%s", want)
	}
	return l
}

// limitIn parses a limit in a unit, or returns the accepted values. US dollars become
// micro-dollars.
func limitIn(unit budget.Unit, text string) (l weir.Limit, want string) {
	limit := text
	if unit == budget.USD {
		var ok bool
		if limit, ok = inMicroDollars(text); !ok {
			return l, fmt.Sprintf("want an amount of US dollars and a period, such as 12.50/day calendar UTC, with at most six decimals and at most %d", budget.MaxCost/1_000_000)
		}
	}
	l, err := weir.ParseLimit(limit)
	if err != nil {
		return l, plainError(err, limit)
	}
	return l, ""
}

// inMicroDollars returns the text of a limit in US dollars with its amounts in micro-dollars.
func inMicroDollars(text string) (string, bool) {
	amount, rest, ok := strings.Cut(text, "/")
	words := strings.Fields(rest)
	scale := func(s *string) bool {
		n, ok := budget.ParseUSD(strings.ReplaceAll(*s, "_", ""))
		*s = strconv.FormatInt(n, 10)
		return ok && n > 0 && n <= budget.MaxCost
	}
	amount = strings.TrimSpace(amount)
	ok = ok && scale(&amount)
	for i := 1; i < len(words) && ok; i++ {
		if words[i-1] == "burst" || words[i-1] == "initial" {
			ok = scale(&words[i])
		}
	}
	return amount + "/" + strings.Join(words, " "), ok
}
