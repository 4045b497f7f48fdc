package load

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/floodweir/weir/flashsale/verify/load/measure"
)

// Text returns the result as a table.
func (r *Result) Text() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	mode := r.Mode
	if mode == "" {
		mode = "unknown"
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
	end := "all users finished"
	if r.Bound {
		end = "ended by its limit"
	}
	row("took", "%s, %s", short(r.Took), end)
	row("requests", "%d, %.0f/s during the %s until every user had a response", r.Requests, r.PerSecond, short(r.Busy))
	row("refused", "%d, %.0f/s", r.Refused, float64(r.Refused)/max(r.Took, time.Microsecond).Seconds())
	quantiles := func(name string, q measure.Quantiles) {
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
	counts(row, "errors", r.Errors)
	row("users", "%d bought, %d paid, %d cancelled, %d sold out, %d gave up, %d still active",
		r.Bought, r.Paid, r.Canceled, r.SoldOut, r.GaveUp, r.Active)
	if r.Lost > 0 {
		row("reservations lost", "%d", r.Lost)
	}
	moment := func(name string, at time.Duration) {
		if at > 0 {
			row(name, "%s after the start", short(at))
		}
	}
	moment("last unit reserved", r.Reserved)
	moment("last order placed", r.Drained)
	moment("first sold out", r.FirstSoldOut)
	if r.Drain > 0 {
		row("orders", "%.0f/s", r.Drain)
	}
	row("processor", "generator %s, %.0f %% of all", short(r.CPU), 100*r.Share)
	for _, name := range slices.Sorted(maps.Keys(r.Servers)) {
		u := r.Servers[name]
		row("  "+name, "%s, %.0f %% of all; %s memory, %s more than at the start", short(u.CPU), 100*u.Share, bytesText(u.RSS), bytesText(u.Grew))
	}
	if len(r.Faults) == 0 {
		row("faults", "none")
	}
	counts(row, "faults", r.Faults)
	w.Flush() // a Builder returns no error
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

// short formats a duration with about three digits.
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
