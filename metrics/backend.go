package metrics

// A Backend makes metrics in a metrics library. New calls its methods once for each name, and the
// functions that they return at any time and concurrently.
type Backend interface {
	// Counter makes counters that differ in their labels. The function it returns makes the
	// series with the given values of labels, in order, which begins at 0; for values that it
	// had before it returns an equal Counter.
	Counter(name, help string, labels ...string) func(values ...string) Counter

	// Histogram makes histograms that differ in their labels, as Counter does. The upper
	// bounds of the buckets are in the unit of the name.
	Histogram(name, help string, bounds []float64, labels ...string) func(values ...string) Histogram

	// Poll makes metrics that are read at each export. read calls emit for each value;
	// i is the index of its metric.
	Poll(all []Polled, read func(emit func(i int, value float64, labels ...string)))

	// Forget ends the series of all counters with this value of a label. It reports false if
	// the library cannot do that.
	Forget(label, value string) bool
}

// A Counter counts events.
type Counter interface{ Add(n float64) }

// A Histogram counts values by size.
type Histogram interface{ Observe(value float64) }

// Polled describes a metric that is read at each export.
type Polled struct {
	Name, Help string
	Labels     []string
	Counter    bool // it only grows; a gauge otherwise
}
