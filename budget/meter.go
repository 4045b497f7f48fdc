package budget

import (
	"cmp"
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

	// MaxOutput bounds the output tokens of a request; DefaultMaxOutput if zero. A smaller bound
	// in the request replaces it.
	MaxOutput int64

	// MaxBody bounds the bytes of a request body that is read for its ModelRequest; DefaultMaxBody if
	// zero, at most 64 MiB. A longer one declares nothing.
	MaxBody int64

	// Step, if not zero, is the number of output tokens that are reserved for a stream at a
	// time. More are reserved while it runs.
	Step int64

	// Exhausted selects what happens to a stream when no further step can be reserved:
	// "finish", which is the default, ends it like one that reached its maximum of tokens.
	// "error" ends it with an error. "allow" lets it run; the excess is charged at its end.
	Exhausted string

	// Disconnected selects what happens to a response whose client disconnects: "drain", which
	// is the default, reads the rest for its usage. "cancel" cancels the request.
	Disconnected string

	// IncludeUsage adds stream_options.include_usage to requests for streams of chat
	// completions, and removes the event with the usage for clients that did not ask for it.
	IncludeUsage bool

	// IncludeMax, if not empty, sends MaxOutput to the upstream in requests without a smaller bound
	// of the output. A body that cannot be read is refused. For chat completions it is the name
	// of the bound: max_tokens or max_completion_tokens. Other APIs have one name.
	IncludeMax string

	// Warn configures warnings about the limits of the budget; none if nil.
	Warn *Warning
}

const (
	// DefaultMaxOutput is the default of MeterConfig.MaxOutput.
	DefaultMaxOutput = 4096
	// DefaultMaxBody is the default of MeterConfig.MaxBody.
	DefaultMaxBody = 4 << 20
	// maxBody is the largest MeterConfig.MaxBody.
	maxBody = 64 << 20
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
	r.MaxOutput = cmp.Or(r.MaxOutput, DefaultMaxOutput)
	r.MaxBody = cmp.Or(r.MaxBody, DefaultMaxBody)
	r.Exhausted = cmp.Or(r.Exhausted, "finish")
	r.Disconnected = cmp.Or(r.Disconnected, "drain")
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
	if r.MaxBody < 0 || r.MaxBody > maxBody {
		f.Add("reserve.max_body", fmt.Sprint(r.MaxBody), "want 1 to %d bytes", maxBody)
	}
	if r.Step < 0 || r.Step > MaxTokens {
		f.Add("reserve.step", fmt.Sprint(r.Step), "want 1 to %d tokens", int64(MaxTokens))
	}
	if !slices.Contains([]string{"finish", "error", "allow"}, r.Exhausted) {
		f.Add("exhausted", fault.Quote(r.Exhausted), "want finish, error or allow")
	}
	if !slices.Contains([]string{"drain", "cancel"}, r.Disconnected) {
		f.Add("disconnected", fault.Quote(r.Disconnected), "want drain or cancel")
	}
	if !slices.Contains([]string{"", "max_tokens", "max_completion_tokens"}, r.IncludeMax) {
		f.Add("include_max", fault.Quote(r.IncludeMax), "want max_tokens or max_completion_tokens")
	}
	r.Warn.check(&f)
	return &Meter{r}, f.Errs.Err()
}

// String returns the unit and the bounds of m.
func (m *Meter) String() string {
	if m == nil {
		return "none"
	}
	text := fmt.Sprintf("%s of %s, max_input %d, max_output %d", m.c.Unit, m.c.Format, m.c.MaxInput, m.c.MaxOutput)
	if m.c.Step > 0 {
		text += fmt.Sprintf(", step %d, %s", m.c.Step, m.c.Exhausted)
	}
	if m.c.IncludeMax != "" {
		text += ", sent as " + m.c.IncludeMax
	}
	return text
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

// Output returns the output tokens to reserve for a call at its beginning: the smaller of its own
// bound and MaxOutput, and at most a Step for a stream.
func (m *Meter) Output(c ModelRequest) int64 {
	n := m.c.MaxOutput
	if c.MaxOutput > 0 {
		n = min(n, c.MaxOutput)
	}
	if c.Stream && m.c.Step > 0 {
		n = min(n, m.c.Step)
	}
	return n
}

// Bound returns the largest cost of a call with a body of the given length, or -1 if the length is
// unknown, and with the given number of output tokens. A model without a price, or none, has the
// highest prices. The bound holds for text. Images, files and tools that the provider runs need a
// MeterConfig.MaxInput.
func (m *Meter) Bound(length int64, c ModelRequest, output int64) int64 {
	u := m.usage(length, output)
	if m.c.Unit == USD {
		return m.c.Prices.bound(c.Model, u)
	}
	cost, _ := m.Cost(u)
	return cost
}

// Least returns the smallest Bound of a call that declares no bound of its own.
func (m *Meter) Least() int64 {
	u := m.usage(0, m.Output(ModelRequest{Stream: true}))
	if m.c.Unit == USD {
		return m.c.Prices.least(u)
	}
	cost, _ := m.Cost(u)
	return cost
}

func (m *Meter) usage(length, output int64) Usage {
	u := Usage{Input: m.c.MaxInput, Output: output}
	if u.Input == 0 {
		u.Input = min(max(0, length), MaxTokens-template) + template
	}
	return u
}
