package plot

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/guptarohit/asciigraph"
)

// A Chart has series over one span of time.
type Chart struct {
	Title string
	Note  string // below the title; may be empty
	Unit  string // of the values

	// Labels are the texts at the start and the end of the time axis.
	Labels [2]string

	Series []Series
}

// A Series has values at even distances, at least 2. Charts have up to 6 series.
type Series struct {
	Name   string
	Values []float64
}

// Sizes in the SVG, in px.
const (
	cellWidth, cellHeight = 440, 190
	left, right           = 44, 78
	top, bottom           = 38, 24
	labelHeight           = 13
)

// SVG writes charts below each other in two columns, or in one for a single chart. Title
// describes the whole drawing for readers who cannot see it.
func SVG(w io.Writer, title string, charts []Chart) error {
	columns := min(2, max(1, len(charts)))
	width, height := columns*cellWidth, (len(charts)+columns-1)/columns*cellHeight
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">%s`,
		width, height, width, height, escape(title), style)
	for i, c := range charts {
		c.cell(&b, i%columns*cellWidth, i/columns*cellHeight)
	}
	b.WriteString("\n</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// class returns the style of a series: names of the console's palette, else one by index.
func class(i int, name string) string {
	for _, known := range []string{"offered", "admitted", "denied", "delay", "good"} {
		if strings.HasPrefix(name, known) {
			return known
		}
	}
	return "s" + strconv.Itoa(i%6)
}

// cell writes the chart as a group of elements at x, y.
func (c *Chart) cell(b *strings.Builder, x, y int) {
	const end, bottomLine = cellWidth - right, cellHeight - bottom
	fmt.Fprintf(b, "\n<g transform=\"translate(%d %d)\">\n<text class=\"t\" x=\"8\" y=\"16\">%s</text>", x, y, escape(c.Title))
	if c.Note != "" {
		fmt.Fprintf(b, `<text x="%d" y="32" text-anchor="end">%s</text>`, end, escape(c.Note))
	}
	most := ceiling(c.most())
	scale := float64(bottomLine-top) / most
	for i := range 3 {
		value := most * float64(i) / 2
		at := bottomLine - value*scale
		fmt.Fprintf(b, "\n"+`<line class="g" x1="%d" x2="%d" y1="%.4g" y2="%.4g"/>`, left, end, at, at)
		if i == 2 {
			fmt.Fprintf(b, `<text x="8" y="%.4g" dy="-4">%s</text>`, at, escape(number(value)+" "+c.Unit))
		} else {
			fmt.Fprintf(b, `<text x="%d" y="%.4g" dx="-5" dy="4" text-anchor="end">%s</text>`, left, at, number(value))
		}
	}
	fmt.Fprintf(b, "\n"+`<text x="%d" y="%d" dy="16">%s</text><text x="%d" y="%d" dy="16" text-anchor="end">%s</text>`,
		left, bottomLine, escape(c.Labels[0]), end, bottomLine, escape(c.Labels[1]))
	c.lines(b, scale)
	b.WriteString("\n</g>")
}

// lines writes the series, each with its name at the end of its line.
func (c *Chart) lines(b *strings.Builder, scale float64) {
	var taken []int
	for i, s := range c.Series {
		var points strings.Builder
		step := float64(cellWidth-left-right) / float64(max(1, len(s.Values)-1))
		last := 0.0
		for k, v := range s.Values {
			if math.IsNaN(v) {
				continue
			}
			last = float64(cellHeight-bottom) - v*scale
			fmt.Fprintf(&points, "%.4g,%.4g ", left+step*float64(k), last)
		}
		at := free(taken, int(last)+4)
		taken = append(taken, at)
		fmt.Fprintf(b, "\n"+`<polyline class="%s" points="%s"/><text x="%d" y="%d">%s</text>`,
			class(i, s.Name), strings.TrimSpace(points.String()), cellWidth-right+5, at, escape(s.Name))
	}
}

// free returns the place of a label, near y and apart from the labels that are there.
func free(taken []int, y int) int {
	for distance := 0; ; distance++ {
		for _, at := range []int{y - distance, y + distance} {
			clear := at <= cellHeight-bottom+4
			for _, t := range taken {
				clear = clear && (at-t >= labelHeight || t-at >= labelHeight)
			}
			if clear {
				return at
			}
		}
	}
}

func (c *Chart) most() (most float64) {
	for _, s := range c.Series {
		for _, v := range s.Values {
			if !math.IsNaN(v) {
				most = max(most, v)
			}
		}
	}
	return most
}

// ceiling returns the end of the axis: 1, 2 or 5 times a power of ten, or 1 for none.
func ceiling(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10} {
		if m*power >= v {
			return m * power
		}
	}
	return 10 * power
}

// number returns v in at most 4 characters.
func number(v float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= unit.size {
			return strconv.FormatFloat(v/unit.size, 'g', 3, 64) + unit.name
		}
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace

// style has the palette of docs/console: contrast of 4.5 or more for text on both
// backgrounds. Series also differ by the form of the line.
const style = "\n" + `<style>
svg{background:#fbfaf7;font:12px system-ui,sans-serif}text{fill:#59626b;stroke:none}.t{fill:#1c2126;font-weight:600}.g{stroke:#84888c;stroke-width:.5}
polyline{fill:none;stroke-width:1.5}.offered{stroke:#59626b;stroke-dasharray:2 3}.admitted,.s0{stroke:#1f6f4a}.denied,.s1{stroke:#b3261e;stroke-dasharray:6 3}.delay,.s2{stroke:#8a5a00}.good,.s3{stroke:#5b4b9a}.s4{stroke:#0b5c6b}.s5{stroke:#7a3b5e}
@media(prefers-color-scheme:dark){svg{background:#12161a}text{fill:#a0a8b0}.t{fill:#e6e4de}.g{stroke:#6f7880}.offered{stroke:#a0a8b0}.admitted,.s0{stroke:#5cc08d}.denied,.s1{stroke:#ff8a80}.delay,.s2{stroke:#e0b04a}.good,.s3{stroke:#b3a4f0}.s4{stroke:#5fb8c9}.s5{stroke:#e39ac0}}
</style>`

// Text writes a chart for a terminal of width columns.
func (c *Chart) Text(w io.Writer, width int) error {
	var data [][]float64
	var sets []asciigraph.CharSet
	var legend []string
	for i, s := range c.Series {
		data = append(data, s.Values)
		chars := asciigraph.DefaultCharSet
		if mark := []string{"·", "", "×", "+", "o", "#"}[i%6]; mark != "" {
			chars = asciigraph.CreateCharSet(mark)
			legend = append(legend, mark+" "+s.Name)
		} else {
			legend = append(legend, "─ "+s.Name)
		}
		sets = append(sets, chars)
	}
	head := c.Title
	if c.Note != "" {
		head += "   " + c.Note
	}
	graph := asciigraph.PlotMany(data, asciigraph.Height(6), asciigraph.Width(max(20, width-12)), asciigraph.LowerBound(0),
		asciigraph.UpperBound(ceiling(c.most())), asciigraph.SeriesChars(sets...), asciigraph.YAxisValueFormatter(number))
	_, err := fmt.Fprintf(w, "%s\n%s\n        %s to %s, %s: %s\n", head, graph, c.Labels[0], c.Labels[1], c.Unit, strings.Join(legend, "  "))
	return err
}
