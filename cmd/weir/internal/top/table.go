package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
)

// sparks are the levels of a sparkline.
var sparks = []rune("▁▂▃▄▅▆▇█")

// sparkline draws the last width values; a space without data.
func sparkline(values []*float64, width int) string {
	values = values[max(0, len(values)-width):]
	most := 0.0
	for _, v := range values {
		if v != nil {
			most = max(most, *v)
		}
	}
	var b strings.Builder
	for range width - len(values) {
		b.WriteByte(' ')
	}
	for _, v := range values {
		switch {
		case v == nil:
			b.WriteByte(' ')
		case most == 0:
			b.WriteRune(sparks[0])
		default:
			b.WriteRune(sparks[int(*v/most*float64(len(sparks)-1)+0.5)])
		}
	}
	return b.String()
}

// number returns v with few digits and separators of thousands.
func number(v float64) string {
	if v < 10 && v != float64(int(v)) {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func percent(part, of float64) string {
	if of == 0 {
		return "0.0%"
	}
	return strconv.FormatFloat(part/of*100, 'f', 1, 64) + "%"
}

func millis(ms float64) string {
	switch {
	case ms == 0:
		return "-"
	case ms < 1:
		return strconv.FormatFloat(ms, 'f', 2, 64) + " ms"
	}
	return strconv.FormatFloat(ms, 'f', 1, 64) + " ms"
}

// columns pads cells to columns. A column whose heading begins with a space is right-aligned.
func columns(rows [][]string) []string {
	widths := make([]int, len(rows[0]))
	for i, heading := range rows[0] {
		for _, r := range rows {
			if strings.HasPrefix(heading, " ") {
				r[i] = strings.TrimSpace(r[i])
			}
			widths[i] = max(widths[i], ansi.StringWidth(r[i]))
		}
		for _, r := range rows {
			pad := strings.Repeat(" ", widths[i]-ansi.StringWidth(r[i]))
			if strings.HasPrefix(heading, " ") {
				r[i] = pad + r[i]
			} else {
				r[i] += pad
			}
		}
	}
	lines := make([]string, len(rows))
	for i, r := range rows {
		lines[i] = strings.TrimRight(strings.Join(r, "  "), " ")
	}
	return lines
}

// summary returns the two lines above the tables. status says how old the numbers are.
func (o *overview) summary(status string) []string {
	where := fmt.Sprintf("%d of %d nodes", o.Live, len(o.Nodes))
	if len(o.Programs) > 0 {
		where += fmt.Sprintf(", %d program", len(o.Programs))
		if len(o.Programs) > 1 {
			where += "s"
		}
	}
	if o.Version > 0 {
		where += fmt.Sprintf(", policies v%d", o.Version)
	}
	lines := []string{
		"weir top  " + where + "  " + status,
		fmt.Sprintf("admitted %s/s  denied %s/s %s  delayed %s/s  shadow %s/s  overloaded %s/s  p50 %s  p99 %s",
			number(o.Totals.Admitted), number(o.Totals.Denied), percent(o.Totals.Denied, o.Totals.requests()),
			number(o.Totals.Delayed), number(o.Totals.Shadow), number(o.Totals.Overloaded), millis(o.Latency.P50), millis(o.Latency.P99)),
	}
	if o.Problem != "" {
		lines = append(lines, "! "+plain(o.Problem))
	}
	return lines
}

// policyLines returns the table of policies, with a heading.
func (o *overview) policyLines(trend int) []string {
	rows := [][]string{{"POLICY", " REQ/S", " DENIED/S", " SHARE", fmt.Sprintf("DENIED, %d S", trend), "MODE", "LIMITS"}}
	for _, r := range o.Policies {
		mode := r.Mode
		if r.Percent > 0 && r.Percent < 100 {
			mode += fmt.Sprintf(" %d%%", r.Percent)
		}
		rows = append(rows, []string{
			plain(r.Name), number(r.Rate), number(r.Denied), percent(r.Denied, r.Rate), sparkline(r.Trend, trend), mode, plain(strings.Join(r.Limits, ", ")),
		})
	}
	return columns(rows)
}

// nodeLines returns the table of nodes, and of the programs that have a problem, with a heading. It
// shows the process of nodes that share a name.
func (o *overview) nodeLines() []string {
	rows := [][]string{{"NODE", "VERSION", "STORE", "MODE", " SEEN", "PROBLEM"}}
	named := map[string]int{}
	for _, n := range o.Nodes {
		named[n.Name]++
	}
	for _, n := range o.Nodes {
		version, name := "file", plain(n.Name)
		if named[n.Name] > 1 {
			name += fmt.Sprintf(":%d", n.PID)
		}
		if n.Version > 0 {
			version = fmt.Sprintf("v%d", n.Version)
		}
		store := n.Store.State
		if n.Store.MS > 0 {
			store += " " + millis(n.Store.MS)
		}
		if n.Shares > 0 {
			store += fmt.Sprintf(", shares: %d", n.Shares)
		}
		if n.Self {
			name += " *"
		}
		seen, mode := fmt.Sprintf("%d s", n.SeenMS/1000), n.Mode
		if n.Stale {
			version, store, mode = "", "", "stale"
		}
		rows = append(rows, []string{name, version, plain(store), plain(mode), seen, plain(n.Problem)})
	}
	for _, p := range o.Programs {
		version, mode := "", ""
		if p.Version > 0 {
			version = fmt.Sprintf("v%d", p.Version)
		}
		if p.Stale {
			mode = "stale"
		}
		if p.Stale || p.Problem != "" {
			rows = append(rows, []string{plain(fmt.Sprintf("%s %s:%d", p.Service, p.Host, p.PID)), version, "", mode, fmt.Sprintf("%d s", p.SeenMS/1000), plain(p.Problem)})
		}
	}
	return columns(rows)
}

// lines returns the tables of keys.
func (k *keyList) lines() []string {
	table := func(title string, all []key) []string {
		rows := [][]string{{title, " COUNT", " ERROR"}}
		for _, one := range all {
			rows = append(rows, []string{one.name(), number(float64(one.Count)), number(float64(one.Error))})
		}
		if len(all) == 0 {
			rows = append(rows, []string{"none", "", ""})
		}
		return columns(rows)
	}
	lines := []string{fmt.Sprintf("%s, last %s, coverage %s", plain(k.Policy), time.Duration(k.Window*float64(time.Second)).Round(time.Second), percent(k.Coverage, 1))}
	if k.Problem != "" {
		lines = append(lines, "! "+plain(k.Problem))
	}
	lines = append(lines, "")
	lines = append(lines, table("TOP DENIED", k.Denied)...)
	lines = append(lines, "")
	return append(lines, table("TOP KEYS", k.Requests)...)
}
