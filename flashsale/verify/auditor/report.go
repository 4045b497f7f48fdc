package auditor

import (
	"bytes"
	"fmt"
	"io"
	"text/tabwriter"
)

// An Invariant names a property that every sale must have.
type Invariant string

// The invariants.
const (
	NoOversell             Invariant = "no oversell"                        // pending and paid orders ≤ stock in every sample, and movements add up
	NoUndersell            Invariant = "no undersell"                       // with enough demand: paid + free = stock, and free units can be bought
	PerUser                Invariant = "per-user limit"                     // counting pending and paid
	OneOrder               Invariant = "one order per reservation"          // and no order without a reservation
	TicketsEnd             Invariant = "every ticket ends"                  // at most 30 s after the payment deadline
	PayOrTimeout           Invariant = "pay and timeout exclude each other" // a late payment is refunded and never buys a unit
	InTime                 Invariant = "nothing before start or after end"  // by the server's clock
	Tokens                 Invariant = "tokens"                             // forged, stolen, replayed, early and late calls are refused
	Idempotency            Invariant = "idempotency"                        // the same key: the same response, one effect
	FairQueue              Invariant = "fair queue"                         // admissions are at most a batch out of order; sold out is reported in time
	Bounded                Invariant = "bounded"                            // outstanding tokens ≤ k × stock, order writers ≤ configured
	InventoryMatchesLedger Invariant = "inventory equals ledger"            // after reconciliation; a second one changes nothing
	LayersAddUp            Invariant = "layers add up"                      // calls = accepted + refused, by layer
)

// Invariants returns all invariants, in the order of a Report.
func Invariants() []Invariant {
	return []Invariant{
		NoOversell, NoUndersell, PerUser, OneOrder, TicketsEnd, PayOrTimeout, InTime, Tokens,
		Idempotency, FairQueue, Bounded, InventoryMatchesLedger, LayersAddUp,
	}
}

// A Report holds the findings of an audit.
type Report struct {
	Samples  int64 // of the database
	Findings map[Invariant]Finding
	Errors   []string // the first few errors of stores that could not be read
}

// A Finding counts the checks of one invariant.
type Finding struct {
	Checks     int64
	Violations int64
	Examples   []string // descriptions of the first few violations
}

// Violations returns the number of violations of all invariants.
func (r *Report) Violations() (n int64) {
	for _, f := range r.Findings {
		n += f.Violations
	}
	return n
}

// Checks returns the number of checks of all invariants.
func (r *Report) Checks() (n int64) {
	for _, f := range r.Findings {
		n += f.Checks
	}
	return n
}

// WriteTo writes the report as a table.
func (r *Report) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "invariant\tchecks\tviolations")
	for _, name := range Invariants() {
		f := r.Findings[name]
		fmt.Fprintf(t, "%s\t%d\t%d\n", name, f.Checks, f.Violations)
	}
	fmt.Fprintf(t, "all, in %d samples\t%d\t%d\n", r.Samples, r.Checks(), r.Violations())
	_ = t.Flush() // a buffer has no errors
	for _, name := range Invariants() {
		for _, words := range r.Findings[name].Examples {
			fmt.Fprintf(&b, "%s: %s\n", name, words)
		}
	}
	for _, words := range r.Errors {
		fmt.Fprintf(&b, "not checked: %s\n", words)
	}
	return b.WriteTo(w)
}
