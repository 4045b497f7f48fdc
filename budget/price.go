package budget

import (
	"crypto/sha256"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/floodweir/weir/internal/fault"
)

const (
	// MaxCost is the largest cost of a response. A limit cannot count further.
	MaxCost = 1 << 40
	// maxPrice is the largest price of a million tokens, in micro-dollars: a million dollars.
	maxPrice = 1_000_000_000_000
	// decimals are the decimal places of a micro-dollar.
	decimals = 6
)

// A Price has the prices of some models in US dollars per million tokens, as decimal texts such as
// "1.25".
type Price struct {
	// Models are exact names, or patterns in which '*' stands for any text. A model has the
	// price that names it exactly, or else the first whose pattern matches.
	Models []string

	// Input and Output are required.
	Input, Output string

	// Cached, CacheWrite and CacheWrite1h are the prices of tokens that are read from a cache
	// and written to one. An empty Cached or CacheWrite is Input. An empty CacheWrite1h is
	// CacheWrite.
	Cached, CacheWrite, CacheWrite1h string

	// Above, if not zero, is the number of input tokens, also cached ones, above which Long
	// has the prices of the whole response. Long has no Models and no Above.
	Above int64
	Long  *Price
}

// A rate has prices in micro-dollars per million tokens.
type rate struct{ input, cached, write, write1h, output uint64 }

type entry struct {
	rate
	above int64 // 0 if there is no long rate
	long  rate
}

type pattern struct {
	text string
	*entry
}

// Prices is a table of prices. It is immutable.
type Prices struct {
	exact    map[string]*entry
	patterns []pattern
	deny     bool   // requests for an unknown model
	unknown  *entry // nil if an unknown model has no price
	dearest  rate   // the largest of each price
	version  string
}

// Version returns 12 hexadecimal digits that identify the prices of t, and the names of the
// models.
func (t *Prices) Version() string { return t.version }

// NewPrices returns a table. The text unknown selects what happens to a model without a price:
//
//   - "deny" or "": requests for it are denied. If only the response names it, the highest price of
//     each kind applies.
//   - "highest": the highest price of each kind applies.
//   - the name of a model: that model's price applies.
//
// An error wraps weir.ErrInvalid.
func NewPrices(unknown string, prices ...Price) (*Prices, error) {
	t := &Prices{exact: map[string]*entry{}}
	f := fault.Collector{File: "budget"}
	text := fmt.Appendf(nil, "%q\n", unknown)
	for i := range prices {
		e := t.add(&prices[i], fmt.Sprintf("models[%d]", i), &f)
		text = fmt.Appendf(text, "%q %v\n", prices[i].Models, *e)
	}
	t.version = fmt.Sprintf("%.6x", sha256.Sum256(text))
	if len(prices) == 0 {
		f.Add("models", "", "want at least one price")
	}
	switch {
	case unknown == "" || unknown == "deny":
		t.deny = true
	case unknown != "highest" && len(f.Errs) == 0:
		if t.unknown = t.find(unknown); t.unknown == nil {
			f.Add("unknown_model", fault.Quote(unknown), "want deny, highest, or the name of a model in the table")
		}
	}
	return t, f.Errs.Err()
}

func (t *Prices) add(p *Price, field string, f *fault.Collector) *entry {
	e := &entry{above: p.Above}
	e.rate = p.rate(field, f)
	switch {
	case (p.Above != 0) != (p.Long != nil) || p.Above < 0:
		f.Add(field+".long", fmt.Sprint(p.Above), "want a number of input tokens from 1, and the prices above it")
	case p.Long != nil:
		e.long = p.Long.rate(field+".long", f)
	}
	if len(p.Models) == 0 {
		f.Add(field+".model", "", "want the name of a model")
	}
	for _, m := range p.Models {
		switch {
		case m == "" || len(m) > maxModel:
			f.Add(field+".model", fault.Quote(m), "want a name of 1 to %d bytes", maxModel)
		case strings.Contains(m, "*"):
			t.patterns = append(t.patterns, pattern{m, e})
		case t.exact[m] != nil:
			f.Add(field+".model", fault.Quote(m), "want every name once")
		default:
			t.exact[m] = e
		}
	}
	for _, r := range []rate{e.rate, e.long} {
		d := &t.dearest
		*d = rate{max(d.input, r.input), max(d.cached, r.cached), max(d.write, r.write), max(d.write1h, r.write1h), max(d.output, r.output)}
	}
	return e
}

// maxModel is the longest name of a model that is compared.
const maxModel = 256

// rate parses the prices of p.
func (p *Price) rate(field string, f *fault.Collector) rate {
	get := func(name, text string, otherwise uint64) uint64 {
		if text == "" && name != "input" && name != "output" {
			return otherwise
		}
		n, ok := parsePrice(text)
		if !ok {
			f.Add(field+"."+name, fault.Quote(text), "want US dollars per million tokens, such as \"1.25\", with at most %d decimals", decimals)
		}
		return n
	}
	var r rate
	r.input = get("input", p.Input, 0)
	r.cached = get("cached", p.Cached, r.input)
	r.write = get("cache_write", p.CacheWrite, r.input)
	r.write1h = get("cache_write_1h", p.CacheWrite1h, r.write)
	r.output = get("output", p.Output, 0)
	return r
}

// parsePrice returns a decimal text in millionths.
func parsePrice(text string) (uint64, bool) {
	whole, part, dot := strings.Cut(text, ".")
	if whole == "" || dot && part == "" || len(part) > decimals {
		return 0, false
	}
	var n uint64
	for _, c := range []byte(whole + part + strings.Repeat("0", decimals-len(part))) {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n = n*10 + uint64(c-'0'); n > maxPrice {
			return 0, false
		}
	}
	return n, true
}

// ParseUSD returns an amount of US dollars such as "12.50" in micro-dollars.
func ParseUSD(text string) (int64, bool) {
	n, ok := parsePrice(text)
	return int64(n), ok
}

// find returns the entry of a model, or nil.
func (t *Prices) find(model string) *entry {
	if e := t.exact[model]; e != nil {
		return e
	}
	if i := slices.IndexFunc(t.patterns, func(p pattern) bool { return matches(p.text, model) }); i >= 0 && len(model) <= maxModel {
		return t.patterns[i].entry
	}
	return nil
}

// matches reports whether a pattern, in which '*' stands for any text, matches all of s.
func matches(pattern, s string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	s, ok := strings.CutPrefix(s, first)
	for ok && star {
		if first, rest, star = strings.Cut(rest, "*"); !star {
			return strings.HasSuffix(s, first)
		}
		_, s, ok = strings.Cut(s, first)
	}
	return ok && s == ""
}

// Cost returns the price of u in micro-dollars, rounded up once. If the model has no price, the
// cost is by the highest price of each kind, and the error is ErrUnknownModel. A cost is at most
// MaxCost.
func (t *Prices) Cost(u Usage) (int64, error) {
	e, err := t.find(u.Model), error(nil)
	if e == nil {
		e = t.unknown
	}
	if e == nil {
		e, err = &entry{rate: t.dearest}, ErrUnknownModel
	}
	r := &e.rate
	if e.above > 0 && u.Input+u.Cached+u.CacheWrite+u.CacheWrite1h > e.above {
		r = &e.long
	}
	return r.cost(u), err
}

// bound returns the largest price of a response of a model with at most the tokens of u, whose input
// may be cached in any way.
func (t *Prices) bound(model string, u Usage) int64 {
	e := t.find(model)
	if e == nil {
		e = t.unknown
	}
	if e == nil {
		return t.dearest.bound(u)
	}
	n := e.rate.bound(u)
	if e.above > 0 && u.Input > e.above {
		n = max(n, e.long.bound(u))
	}
	return n
}

// least returns the smallest bound of all models.
func (t *Prices) least(u Usage) int64 {
	n := t.dearest.bound(u)
	for _, e := range t.exact {
		n = min(n, e.rate.bound(u))
	}
	for _, p := range t.patterns {
		n = min(n, p.rate.bound(u))
	}
	return n
}

// bound returns the cost of u with the highest price of input.
func (r rate) bound(u Usage) int64 {
	r.input = max(r.input, r.cached, r.write, r.write1h)
	return r.cost(u)
}

// cost sums tokens × prices in 128 bits: each product has at most 80.
func (r *rate) cost(u Usage) int64 {
	var hi, lo uint64
	for _, part := range [...]struct {
		n     int64
		price uint64
	}{{u.Input, r.input}, {u.Cached, r.cached}, {u.CacheWrite, r.write}, {u.CacheWrite1h, r.write1h}, {u.Output, r.output}} {
		h, l := bits.Mul64(uint64(min(max(0, part.n), MaxTokens)), part.price)
		var carry uint64
		lo, carry = bits.Add64(lo, l, 0)
		hi += h + carry
	}
	const million = 1_000_000
	if hi >= million {
		return MaxCost
	}
	cost, rest := bits.Div64(hi, lo, million)
	if rest > 0 {
		cost++
	}
	return int64(min(cost, MaxCost))
}
