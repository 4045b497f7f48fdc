package budget

import (
	"fmt"
	"slices"

	"github.com/floodweir/weir/internal/fault"
)

// A Unit is the unit of a budget.
type Unit string

// The units.
const (
	USD          Unit = "usd"           // micro-dollars
	Tokens       Unit = "tokens"        // input and output
	InputTokens  Unit = "input_tokens"  // also cached ones
	OutputTokens Unit = "output_tokens" // with reasoning
)

// Units lists the units.
func Units() []Unit { return []Unit{USD, Tokens, InputTokens, OutputTokens} }

// Quota returns the name of the unit in the quota unit of the field RateLimit-Policy.
func (u Unit) Quota() string {
	if u == USD {
		return "micro-usd"
	}
	return string(u)
}

// A MeterConfig configures a Meter.
type MeterConfig struct {
	// Format is the form of the responses; Auto if empty.
	Format Format

	// Unit is required.
	Unit Unit

	// Prices is required for USD, and has no effect otherwise.
	Prices *Prices

	// MaxInput bounds the input tokens of a request; the bytes of its body and 1,000 if zero.
	MaxInput int64

	// MaxOutput bounds the output tokens of a request; DefaultMaxOutput if zero.
	MaxOutput int64
}

const (
	// DefaultMaxOutput is the default of MeterConfig.MaxOutput.
	DefaultMaxOutput = 4096
	// template bounds the tokens that a provider adds to the text of a request.
	template = 1000
)

// A Meter computes the cost of responses in the unit of a budget. It is immutable.
type Meter struct{ c MeterConfig }

// NewMeter returns a Meter. An error wraps weir.ErrInvalid.
func NewMeter(r MeterConfig) (*Meter, error) {
	f := fault.Collector{File: "budget"}
	if r.Format == "" {
		r.Format = Auto
	}
	if r.MaxOutput == 0 {
		r.MaxOutput = DefaultMaxOutput
	}
	if !slices.Contains(Formats(), r.Format) {
		f.Add("format", fault.Quote(string(r.Format)), "want one of %q", Formats())
	}
	if !slices.Contains(Units(), r.Unit) {
		f.Add("unit", fault.Quote(string(r.Unit)), "want one of %q", Units())
	}
	if r.Unit == USD && r.Prices == nil {
		f.Add("prices", "", "want a table of prices for a budget in usd")
	}
	if r.MaxInput < 0 || r.MaxInput > MaxTokens {
		f.Add("reserve.max_input", fmt.Sprint(r.MaxInput), "want 0 to %d tokens", int64(MaxTokens))
	}
	if r.MaxOutput < 0 || r.MaxOutput > MaxTokens {
		f.Add("reserve.max_output", fmt.Sprint(r.MaxOutput), "want 0 to %d tokens", int64(MaxTokens))
	}
	return &Meter{r}, f.Errs.Err()
}

// String returns the unit and the bounds of m.
func (m *Meter) String() string {
	if m == nil {
		return "none"
	}
	return fmt.Sprintf("%s of %s, max_input %d, max_output %d", m.c.Unit, m.c.Format, m.c.MaxInput, m.c.MaxOutput)
}

// Config returns the configuration of m, with defaults.
func (m *Meter) Config() MeterConfig { return m.c }

// PriceVersion returns the version of the prices that m uses; "" if it uses none.
func (m *Meter) PriceVersion() string {
	if m == nil || m.c.Unit != USD {
		return ""
	}
	return m.c.Prices.Version()
}

// Cost returns the cost of u. The error is that of Prices.Cost.
func (m *Meter) Cost(u Usage) (int64, error) {
	input := u.Input + u.Cached + u.CacheWrite + u.CacheWrite1h
	switch m.c.Unit {
	case USD:
		return m.c.Prices.Cost(u)
	case InputTokens:
		return min(input, MaxCost), nil
	case OutputTokens:
		return u.Output, nil
	}
	return min(input+u.Output, MaxCost), nil
}

// Bound returns the largest cost of a request with a body of the given length, or -1 if the length
// is unknown: its input and output at the highest prices. It holds for text. Images, files and
// tools that the provider runs need a MeterConfig.MaxInput.
func (m *Meter) Bound(length int64) int64 {
	u := Usage{Input: m.c.MaxInput, Output: m.c.MaxOutput}
	if u.Input == 0 {
		u.Input = min(max(0, length), MaxTokens-template) + template
	}
	if m.c.Unit == USD {
		d := m.c.Prices.dearest
		d.input = max(d.input, d.cached, d.write, d.write1h)
		return d.cost(u)
	}
	cost, _ := m.Cost(u)
	return cost
}
