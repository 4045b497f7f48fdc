package auditor

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// An Invariant is the name of something that must hold.
type Invariant string

// The invariants.
const (
	NoOversell   Invariant = "no oversell"                        // pending and paid orders ≤ stock at every sample, and movements add up
	NoUndersell  Invariant = "no undersell"                       // when enough was wanted: paid + free = stock, and free units can be bought
	PerUser      Invariant = "per-user limit"                     // counting pending and paid
	OneOrder     Invariant = "one order per reservation"          // or one recorded return; and no order without a reservation
	TicketsEnd   Invariant = "every ticket ends"                  // at most the time to pay and 30 s later
	PayOrTimeout Invariant = "pay and timeout exclude each other" // late money is to be refunded, never a unit
	InTime       Invariant = "nothing before start or after end"  // by the server's clock, whatever the buyer's
	Tokens       Invariant = "tokens"                             // forged, stolen, replayed, early, late: refused
	Idempotency  Invariant = "idempotency"                        // the same key: the same body, one effect
	FairLine     Invariant = "fair line"                          // no admission inversion beyond a batch; sold out is told in time
	Bounded      Invariant = "bounded"                            // tokens out ≤ k × stock, order writers ≤ configured
	GateIsLedger Invariant = "gate equals ledger"                 // after reconciling; a second time changes nothing
	LayersAddUp  Invariant = "layers add up"                      // calls = granted + refused, by layer
)

// Invariants returns all of them, in the order of a Report.
func Invariants() []Invariant {
	return []Invariant{
		NoOversell, NoUndersell, PerUser, OneOrder, TicketsEnd, PayOrTimeout, InTime, Tokens,
		Idempotency, FairLine, Bounded, GateIsLedger, LayersAddUp,
	}
}

// A Report says how the invariants fared.
type Report struct {
	Samples  int64 // how often the database was looked at
	Findings map[Invariant]Finding
	Errors   []string // what could not be looked at, the first few
}

// A Finding is how one invariant fared.
type Finding struct {
	Checks     int64
	Violations int64
	First      []string // the first few violations, in words
}

// Violations is how many there were in all.
func (r *Report) Violations() (n int64) {
	for _, f := range r.Findings {
		n += f.Violations
	}
	return n
}

// Checks is how many there were in all.
func (r *Report) Checks() (n int64) {
	for _, f := range r.Findings {
		n += f.Checks
	}
	return n
}

// WriteTo writes the report as a table.
func (r *Report) WriteTo(w io.Writer) (int64, error) {
	c := &counter{w: w}
	t := tabwriter.NewWriter(c, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "invariant\tchecks\tviolations")
	for _, name := range Invariants() {
		f := r.Findings[name]
		fmt.Fprintf(t, "%s\t%d\t%d\n", name, f.Checks, f.Violations)
	}
	fmt.Fprintf(t, "all, in %d samples\t%d\t%d\n", r.Samples, r.Checks(), r.Violations())
	if err := t.Flush(); err != nil {
		return c.n, err
	}
	for _, name := range Invariants() {
		for _, words := range r.Findings[name].First {
			fmt.Fprintf(c, "%s: %s\n", name, words)
		}
	}
	for _, words := range r.Errors {
		fmt.Fprintf(c, "not looked at: %s\n", words)
	}
	return c.n, c.err
}

// A counter counts what is written, and keeps the first error.
type counter struct {
	w   io.Writer
	n   int64
	err error
}

func (c *counter) Write(b []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.w.Write(b)
	c.n, c.err = c.n+int64(n), err
	return n, err
}
