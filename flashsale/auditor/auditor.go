package auditor

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

// A Config says what to audit.
type Config struct {
	// Database is where the orders are: a URL of PostgreSQL (postgres://…), or the path or
	// file: URL of a SQLite database. Required.
	Database string

	// Redis is where the gates are; nil if they are in the shop's process.
	Redis rueidis.Client

	// Gate tells of a gate that is not in Redis; nil if nobody can.
	Gate func(ctx context.Context, sale string, epoch int64) (GateState, error)

	// Sales are the IDs of the sales to audit; empty for all that were ever exposed.
	Sales []string

	// Every is how long Watch waits between two samples; 100 ms if 0.
	Every time.Duration

	// Slack is how late a ticket or an order may end; 30 s if 0.
	Slack time.Duration
}

// A GateState is what a gate says of a sale.
type GateState struct {
	Epoch       int64
	Stock       int64
	Free        int64
	Outstanding int64    // admitted, not used, still valid
	Backlog     int64    // entries of its stream
	Held        []string // reservation IDs that it holds; nil if it does not tell
	Workers     int      // who read its stream; 0 if it does not tell
}

// Facts are what Final is told, beside what it reads itself.
type Facts struct {
	// Observations are what buyers saw, in any order.
	Observations []Observation

	// Complete says that every call of every buyer is among them. Only then does an order
	// that nobody asked for mean anything.
	Complete bool

	// Settled says that nobody buys any more, and that the times to pay are over.
	Settled bool

	// Demand is how many units of a sale were wanted to the end, by its ID: by buyers who
	// asked on until they had one or were told that there is none.
	Demand map[string]int64

	// Batch is how many tickets are admitted at once at most; 500 if 0.
	Batch int

	// Workers is how many order writers there may be; 0 if that is not known.
	Workers int

	// Layers is what the servers say they refused, by layer, for all the Observations
	// together; nil if that is not known.
	Layers map[string]int64

	// Reservation returns the reservation ID that a receipt names, or "". Nil for the form
	// of receipts that the shop documents.
	Reservation func(receipt string) string

	// Reconcile lets the shop compare its gate and ledger, and returns how many rows it
	// changed; nil if nobody can. It is called twice for each sale.
	Reconcile func(ctx context.Context, sale string) (changed int, err error)
}
