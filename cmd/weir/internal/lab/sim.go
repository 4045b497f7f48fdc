package lab

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/accesslog"
	"github.com/floodweir/weir/cmd/weir/internal/plot"
	"github.com/floodweir/weir/cmd/weir/internal/sim"
)

// simOptions are the flags of `weir sim`.
type simOptions struct {
	shape, rate, peak string
	span, takes       time.Duration
	all, json, table  bool
	svg               string
	trace             string
	log               logOptions
}

func (c Config) sim() *cobra.Command {
	var o simOptions
	cmd := &cobra.Command{
		Use:   "sim LIMIT...",
		Short: "Send simulated traffic through limits",
		Long: "Send traffic through limits in virtual time and show the admitted against the offered load, and the\n" +
			"delay of queues. Each LIMIT decides the whole traffic. 'A + B' charges two limits together.\n" +
			"With --all, one LIMIT stands for every algorithm with its rate and burst.\n\n" +
			"Traffic: steady; burst (five bursts with the mean rate --rate); ramp (from 0 to --peak);\n" +
			"flash (--rate, then a jump to --peak, and back). Requests arrive at even distances. --trace takes the\n" +
			"arrivals and costs of a log that `weir replay` reads, such as CSV with the columns time,cost.\n\n" +
			"Exit codes: 0 done, 2 wrong usage or unreadable log.",
		Example: "  weir sim '10/s burst 20' --all\n" +
			"  weir sim 100/s '100/s leaky_bucket burst 50 queue' --traffic flash --rate 60/s --peak 400/s\n" +
			"  weir sim '20 concurrency' --takes 300ms --rate 100/s --svg plot.svg",
	}
	f := cmd.Flags()
	f.StringVar(&o.shape, "traffic", "steady", "`SHAPE` of the traffic: steady, burst, ramp or flash")
	f.StringVar(&o.trace, "trace", "", "send the requests of a log, `FILE`, at their times, as one key")
	f.StringVar(&o.rate, "rate", "", "`RATE` of the traffic; default twice that of the first limit")
	f.StringVar(&o.peak, "peak", "", "`RATE` at the peak of ramp and flash; default 5 times --rate")
	f.DurationVar(&o.span, "for", 0, "`DURATION` of the traffic; default 10 periods of the first limit")
	f.DurationVar(&o.takes, "takes", 100*time.Millisecond, "`DURATION` of a request, for limits of concurrency")
	f.BoolVar(&o.all, "all", false, "compare all algorithms with the rate and burst of LIMIT")
	f.BoolVar(&o.table, "table", false, "print the table without plots")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.StringVar(&o.svg, "svg", "", "write the plots to `FILE` as SVG")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if err := c.runSim(o, args); err != nil {
			return fmt.Errorf("sim: %w", err)
		}
		return nil
	}
	return cmd
}

func (c *Config) runSim(o simOptions, limits []string) error {
	if len(limits) == 0 {
		return fmt.Errorf("LIMIT: got none, want one such as '10/s burst 20'")
	}
	if o.all {
		l, err := weir.ParseLimit(limits[0])
		if err == nil && len(limits) > 1 {
			err = fmt.Errorf("--all: got %d limits, want 1", len(limits))
		}
		if err == nil {
			limits, err = sim.Algorithms(l)
		}
		if err != nil {
			return err
		}
	}
	traffic, err := o.traffic(limits[0])
	if o.trace != "" {
		traffic, err = c.readTrace(&o)
	}
	if err != nil {
		return err
	}
	results, err := sim.Run(traffic, limits, sim.Config{Takes: o.takes})
	if err != nil {
		return err
	}
	charts := sim.Charts(traffic, results)
	if o.svg != "" {
		if err := create(o.svg, func(w io.Writer) error { return plot.SVG(w, o.title(traffic), charts) }); err != nil {
			return err
		}
	}
	if o.json {
		return c.printJSON(struct {
			Traffic  string       `json:"traffic"`
			Requests int          `json:"requests"`
			Seconds  float64      `json:"seconds"`
			Results  []sim.Result `json:"results"`
		}{traffic.Name, len(traffic.Arrivals), traffic.Span.Seconds(), results})
	}
	return o.print(c.Stdout, traffic, results, charts)
}

// traffic returns the traffic of the flags. Defaults depend on the first limit.
func (o *simOptions) traffic(limit string) (*sim.Traffic, error) {
	shape := sim.Shape{Kind: sim.Kind(o.shape), Span: o.span}
	if o.takes < 0 || o.takes > time.Hour {
		return nil, fmt.Errorf("--takes: got %v, want 0 to 1h", o.takes)
	}
	first, err := sim.First(limit)
	if err != nil {
		return nil, err
	}
	if first.IsConcurrency() {
		shape.Rate = 2 * float64(first.Count()) / max(o.takes, time.Millisecond).Seconds()
		shape.Span = cmp.Or(shape.Span, 10*time.Second)
	} else {
		period := cmp.Or(first.Period(), 30*24*time.Hour) // a month
		shape.Rate = 2 * float64(first.Count()) / period.Seconds()
		shape.Span = cmp.Or(shape.Span, 10*period)
	}
	if o.rate != "" {
		if shape.Rate, err = perSecond("rate", o.rate); err != nil {
			return nil, err
		}
	}
	shape.Peak = 5 * shape.Rate
	if o.peak != "" {
		if shape.Peak, err = perSecond("peak", o.peak); err != nil {
			return nil, err
		}
	}
	return sim.NewTraffic(shape)
}

// readTrace returns the requests of a log as traffic.
func (c *Config) readTrace(o *simOptions) (*sim.Traffic, error) {
	logs, done, err := c.open([]string{o.trace}, &o.log)
	if err != nil {
		return nil, err
	}
	defer done()
	t := &sim.Traffic{Name: o.trace}
	var order accesslog.Sorter
	begin := int64(-1)
	spaced := accesslog.Spacer{Emit: func(e *accesslog.Entry, at int64) {
		if begin < 0 {
			begin = at
		}
		t.Arrivals = append(t.Arrivals, sim.Arrival{At: time.Duration(at-begin) * time.Microsecond, Cost: e.Cost})
	}}
	var e accesslog.Entry
	for logs[0].Next(&e) && len(t.Arrivals) < sim.MaxRequests {
		order.Add(&e, spaced.Add)
	}
	order.Flush(spaced.Add)
	spaced.Flush()
	if err := logs[0].Err(); err != nil {
		return nil, err
	}
	if len(t.Arrivals) == 0 || len(t.Arrivals) >= sim.MaxRequests {
		return nil, fmt.Errorf("--trace: %s: got %d requests, want 1 to %d", o.trace, len(t.Arrivals), sim.MaxRequests-1)
	}
	t.Span = t.Arrivals[len(t.Arrivals)-1].At + time.Second
	return t, nil
}

func (o *simOptions) title(t *sim.Traffic) string {
	return fmt.Sprintf("%s traffic: %d requests in %v", t.Name, len(t.Arrivals), t.Span)
}

// print writes the table and the plots.
func (o *simOptions) print(out io.Writer, t *sim.Traffic, results []sim.Result, charts []plot.Chart) error {
	fmt.Fprintf(out, "%s\n\n", o.title(t))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "limit\tadmitted\tdenied\tdenied %\tpeak/s\tdelay p50\tp99\tmax")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f\t%.4g\t%.3gs\t%.3gs\t%.3gs\n", r.Limit, r.Admitted, r.Denied,
			100*float64(r.Denied)/float64(r.Offered), r.Peak, r.Delay.P50, r.Delay.P99, r.Delay.Max)
	}
	if err := w.Flush(); err != nil || o.table {
		return err
	}
	for i := range charts {
		if _, err := fmt.Fprintln(out); err != nil {
			return err
		}
		if err := charts[i].Text(out, width); err != nil {
			return err
		}
	}
	return nil
}
