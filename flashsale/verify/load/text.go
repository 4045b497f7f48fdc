package load

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Text is the result as a table to read. As JSON it is itself.
func (r *Result) Text() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	mode := r.Mode
	if mode == "" {
		mode = "not said"
	}
	come := "all at once"
	if r.Over > 0 {
		come = "within " + short(r.Over)
	}
	row("profile", "%s, %d users %s over %d connections, server %s", r.Profile, r.Users, come, r.Connections, mode)
	row("machine", "%d × %s, %s memory, %s, %s", r.Machine.Processors, or(r.Machine.Model, "processors"), bytesText(r.Machine.Memory), r.Machine.System, r.Machine.Go)
	if r.Work != "" {
		row("work per request", "%s", r.Work)
	}
	row("bytes", "%.0f sent and %.0f received per request", r.Sent, r.Received)
	end := "all users knew the end"
	if r.Bound {
		end = "ended by its bound"
	}
	row("took", "%s, %s", short(r.Took), end)
	row("requests", "%d, %.0f/s for the %s in which the crowd came", r.Requests, r.PerSecond, short(r.Busy))
	row("refused", "%d, %.0f/s", r.Refused, float64(r.Refused)/max(r.Took, time.Microsecond).Seconds())
	quantiles := func(name string, q Quantiles) {
		if q.Count > 0 {
			row(name, "p50 %s, p90 %s, p99 %s, max %s of %d", short(q.P50), short(q.P90), short(q.P99), short(q.Max), q.Count)
		}
	}
	quantiles("latency from sent", r.Latency)
	quantiles("latency from due", r.Due)
	for _, c := range slices.Sorted(maps.Keys(r.Calls)) {
		quantiles("  "+c, r.Calls[c])
	}
	counts(row, "status", r.Status)
	counts(row, "reasons", r.Reasons)
	counts(row, "layers", r.Layers)
	counts(row, "no answer", r.Errors)
	row("users", "%d bought, %d paid, %d cancelled, %d were told that there is nothing, %d gave up, %d still ask",
		r.Bought, r.Paid, r.Canceled, r.SoldOut, r.GaveUp, r.Active)
	if r.Lost > 0 {
		row("reservations lost", "%d, and told", r.Lost)
	}
	moment := func(name string, at time.Duration) {
		if at > 0 {
			row(name, "%s after users were due", short(at))
		}
	}
	moment("last unit reserved", r.Reserved)
	moment("all of them orders", r.Drained)
	moment("first told of no unit", r.FirstSoldOut)
	if r.Drain > 0 {
		row("orders", "%.0f/s", r.Drain)
	}
	row("processor", "generator %s, %.0f %% of all", short(r.CPU), 100*r.Share)
	for _, name := range slices.Sorted(maps.Keys(r.Servers)) {
		u := r.Servers[name]
		row("  "+name, "%s, %.0f %% of all; %s memory, %s more than before", short(u.CPU), 100*u.Share, bytesText(u.RSS), bytesText(u.Grew))
	}
	if len(r.Faults) == 0 {
		row("faults", "none")
	}
	counts(row, "faults", r.Faults)
	w.Flush() // to a Builder, which takes everything
	return b.String()
}

func counts[K int | string](row func(string, string, ...any), name string, m map[K]int64) {
	if len(m) == 0 {
		return
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%v: %d", k, m[k]))
	}
	row(name, "%s", strings.Join(parts, ", "))
}

// short is a duration in three digits or so.
func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}

func bytesText(n int64) string {
	if n < 0 {
		return "-" + bytesText(-n)
	}
	if n >= 10<<30 {
		return fmt.Sprintf("%d GiB", n>>30)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
