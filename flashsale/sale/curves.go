package sale

import (
	"context"
	"time"
)

const (
	// CurveStep is the shortest time between two points of a curve.
	CurveStep = 5 * time.Second

	// MaxCurvePoints bounds the points of a sale. Above it, a Curves merges adjacent points.
	MaxCurvePoints = 300
)

// Curves stores how the figures of sales change over time. It is safe for concurrent use, and
// all processes of a ledger share it. The processes sample a sale, and the store adds what the
// ledger knows at that time.
type Curves interface {
	// AddSamples adds samples of known sales by a process. Those of a sale within CurveStep are one
	// point. One that changes no figure adds none, so a call of unknown outcome can be repeated.
	AddSamples(ctx context.Context, process string, samples []CurveSample) error

	// Points returns the points of a sale, the oldest first.
	Points(ctx context.Context, sale string) ([]CurvePoint, error)
}

// CurveSample holds the figures that one process reports about a sale.
type CurveSample struct {
	Sale     string
	At       time.Time
	Admitted int64 // tickets that the process has admitted so far
	Waiting  int64 // as in Counts
	Counted  bool  // Waiting is known
}

// CurvePoint holds the figures of a sale at a time, by all processes. A figure keeps its value
// until the next point.
type CurvePoint struct {
	At       time.Time
	Admitted int64 // tickets so far; at least Reserved
	Reserved int64 // orders so far
	Paid     int64 // paid orders that were not refunded
	Waiting  int64 // tickets in the queue; of merged points the most
	Free     int64 // units without a pending or paid order
}
