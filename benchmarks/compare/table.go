package compare

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Goals writes a Markdown code block with the goals of all rows and whether they are met.
func Goals(w io.Writer, results []Result) {
	lines := [][]string{{"row", "figure", "goal", "measured", "met"}}
	for _, r := range results {
		for _, g := range r.Goals {
			lines = append(lines, r.goal(g))
		}
	}
	write(w, "goals", lines)
}

func (r Result) goal(g Goal) []string {
	head := g.Column
	for _, c := range r.Columns {
		if c.Name == g.Column {
			head = c.Head
		}
	}
	if g.Contender == "" {
		v, ok := r.Value(r.Base, g.Column)
		return []string{r.Name, r.Base + ", " + head, "≤ " + figure(g.Most), or(figure(v), ok), met(ok, v <= g.Most)}
	}
	v, ok := r.Ratio(g.Contender, g.Column)
	return []string{r.Name, g.Contender + " / " + r.Base + ", " + head, "≥ " + ratio(g.Least), or(ratio(v), ok), met(ok, v >= g.Least)}
}

func met(measured, ok bool) string {
	switch {
	case !measured:
		return "not measured"
	case ok:
		return "yes"
	}
	return "no"
}

func or(text string, ok bool) string {
	if !ok {
		return "–"
	}
	return text
}

// Table writes a Markdown code block with the figures of a row: medians, and ratios to the
// base. Contenders without figures follow with the reason.
func (r Result) Table(w io.Writer) {
	head := []string{"contender"}
	for _, c := range r.Columns {
		head = append(head, c.Head)
		if c.Ratio {
			head = append(head, "ratio")
		}
	}
	lines := [][]string{head}
	var failed []string
	for _, o := range r.Outcomes {
		line, any := []string{o.Name}, false
		for _, c := range r.Columns {
			v, ok := r.Value(o.Name, c.Name)
			any = any || ok
			line = append(line, or(figure(v), ok))
			if c.Ratio {
				v, ok := r.Ratio(o.Name, c.Name)
				line = append(line, or(ratio(v), ok))
			}
		}
		if any {
			lines = append(lines, line)
		}
		if o.Failure != "" {
			failed = append(failed, fmt.Sprintf("%s: not measured: %s", o.Name, o.Failure))
		}
	}
	write(w, r.Name+": "+r.Title, lines, failed...)
}

// write writes a code block with a title and aligned columns. The first column is text, and the
// second one if it is named figure.
func write(w io.Writer, title string, lines [][]string, more ...string) {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	fmt.Fprintf(w, "```text\n%s\n\n", title)
	for _, line := range lines {
		var b strings.Builder
		for i, cell := range line {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 || i == 1 && lines[0][1] == "figure" {
				b.WriteString(cell + space + "  ")
			} else {
				b.WriteString(space + cell + "  ")
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
	for _, line := range more {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintln(w, "```")
}

// figure formats a figure with three digits.
func figure(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 0.01:
		return fmt.Sprintf("%.4f", v)
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func ratio(v float64) string { return figure(v) + "×" }
