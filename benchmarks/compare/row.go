package compare

import (
	"testing"
	"time"
)

// A Sample holds the figures of one contender in one round, by column. Figures are costs:
// less is better.
type Sample map[string]float64

// A Measure works for about d and returns what it cost.
type Measure func(t testing.TB, d time.Duration) Sample

// A Contender does the work of a row in one way.
type Contender struct {
	Name string

	// Open prepares the work, with its servers. It runs in the contender's process.
	Open func(t testing.TB) Measure
}

// A Column is one figure of a row.
type Column struct {
	Name  string // in samples
	Head  string // with the unit
	Ratio bool   // followed by a column with the ratio to the base
}

// A Goal is a bound that a row should meet.
type Goal struct {
	// Contender names the contender whose ratio to the base must be at least Least. If it is
	// empty, the figure of the base itself must be at most Most.
	Contender string
	Column    string
	Least     float64
	Most      float64
}

// A Row is one comparison.
type Row struct {
	Name       string // such as redis/64
	Title      string
	Base       string // the contender to which ratios are relative
	Columns    []Column
	Goals      []Goal
	Contenders []Contender

	// Shortest is the least duration of a sample, for load generators that measure in seconds.
	Shortest time.Duration
}
