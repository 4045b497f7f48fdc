package metrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/floodweir/weir/share"
	"github.com/floodweir/weir/share/regions"
)

// RegionStats are the numbers of a region, as its process knows them.
type RegionStats struct {
	Part, Rest int // percent of each limit: of the region alone, and of all regions
	Decisions  regions.Stats

	Up     bool          // the global store is available
	Lag    time.Duration // of its last call
	Shares share.Stats   // of the rest, that the process holds
}

// Regions sets the source of the metrics of regions.
func (m *Metrics) Regions(stats func() RegionStats) { m.regions.Store(&stats) }

var regionGauges = []struct {
	name, help string
	read       func(RegionStats) float64
}{
	{"weir_regions_bound_ratio", "Largest part of a limit that this region admits now: its own part and, while the global store is available, the rest; 0 without regions.", func(s RegionStats) float64 {
		if s.Up {
			return float64(s.Part+s.Rest) / 100
		}
		return float64(s.Part) / 100
	}},
	{"weir_regions_global_up", "1 while the global store of regions is available, else 0.", func(s RegionStats) float64 {
		if s.Up {
			return 1
		}
		return 0
	}},
	{"weir_regions_global_lag_seconds", "Time of the last call of the global store of regions.", func(s RegionStats) float64 { return s.Lag.Seconds() }},
	{"weir_regions_shares_held", "Shares of the rest of limits that this process holds.", func(s RegionStats) float64 { return float64(s.Shares.Shares) }},
	{"weir_regions_stranded", "Sum over these shares of the part of the limit's rate that is above the demand of this process; 1 is a whole limit.", func(s RegionStats) float64 {
		return s.Shares.Stranded * float64(s.Rest) / 100
	}},
}

// A regionCollector collects the metrics of regions. They are 0 without a source.
type regionCollector struct {
	m         *Metrics
	gauges    []*prometheus.Desc
	decisions *prometheus.Desc
}

func (m *Metrics) initRegions() {
	c := &regionCollector{m: m, decisions: prometheus.NewDesc("weir_regions_decisions_total",
		"Requests by what decided them in a region: part (its own), rest (of all regions), denied (by both), or undecided (denied by the part while the global store did not decide).", []string{"by"}, nil)}
	for _, g := range regionGauges {
		c.gauges = append(c.gauges, prometheus.NewDesc(g.name, g.help, nil, nil))
	}
	m.registry.MustRegister(c)
}

// Describe implements [prometheus.Collector].
func (c *regionCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range slices.Concat(c.gauges, []*prometheus.Desc{c.decisions}) {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *regionCollector) Collect(to chan<- prometheus.Metric) {
	var s RegionStats
	if stats := c.m.regions.Load(); stats != nil {
		s = (*stats)()
	}
	for i, g := range regionGauges {
		to <- prometheus.MustNewConstMetric(c.gauges[i], prometheus.GaugeValue, g.read(s))
	}
	d := s.Decisions
	for _, by := range []struct {
		by string
		n  int64
	}{{"part", d.Own}, {"rest", d.Rest}, {"denied", d.Denied}, {"undecided", d.Undecided}} {
		to <- prometheus.MustNewConstMetric(c.decisions, prometheus.CounterValue, float64(by.n), by.by)
	}
}
