package compare

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// Sizes of the plot, in px.
const (
	plotWidth = 760
	barLeft   = 300
	barRight  = 60
	barHeight = 15
	rowGap    = 34
)

// Plot writes an SVG with a bar for each contender: the ratio of its first column to the base,
// on a logarithmic axis. It is readable on light and dark pages.
func Plot(w io.Writer, title string, results []Result) {
	least, most := 0.5, 2.0
	each(results, func(_ Result, _ string, v float64) { least, most = min(least, v), max(most, v) })
	x := func(v float64) float64 {
		return barLeft + (plotWidth-barLeft-barRight)*math.Log(v/least)/math.Log(most/least)
	}
	var b strings.Builder
	y := 0
	last := ""
	each(results, func(r Result, name string, v float64) {
		if r.Name != last {
			last = r.Name
			y += rowGap
			fmt.Fprintf(&b, "<text x=\"4\" y=\"%d\" font-weight=\"bold\">%s</text>\n", y-6, html.EscapeString(r.Name+": "+r.Title+", "+r.Columns[0].Head))
		}
		from, to := min(x(1), x(v)), max(x(1), x(v))
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text><rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/><text x=\"%.1f\" y=\"%d\">%s</text>\n",
			barLeft-8, y+barHeight-4, html.EscapeString(name), from, y+2, max(1.5, to-from), barHeight-4, color(r, name, v), to+4, y+barHeight-4, ratio(v))
		y += barHeight
	})
	fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"11\" fill=\"#808080\" role=\"img\"><title>%s</title>\n%s<line x1=\"%.1f\" y1=\"8\" x2=\"%.1f\" y2=\"%d\" stroke=\"#808080\"/>\n</svg>\n",
		plotWidth, y+10, html.EscapeString(title), b.String(), x(1), x(1), y+4)
}

// color returns the color of a bar: the base, what costs less than it, and the others.
func color(r Result, name string, v float64) string {
	switch {
	case name == r.Base:
		return "#808080"
	case v < 1:
		return "#d55e00"
	}
	return "#009e73"
}

// each calls f with the ratio of each contender that has one.
func each(results []Result, f func(r Result, name string, ratio float64)) {
	for _, r := range results {
		for _, o := range r.Outcomes {
			if v, ok := r.Ratio(o.Name, r.Columns[0].Name); ok && v > 0 {
				f(r, o.Name, v)
			}
		}
	}
}
