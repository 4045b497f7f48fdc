package replay

import (
	_ "embed"
	"fmt"
	"html"
	"io"
	"strings"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/plot"
)

//go:embed report.html
var pageStart string

// WriteHTML writes the report as one page without script and without references to others. It
// uses no template package: with one, the linker keeps all methods of the program.
func (r *Report) WriteHTML(w io.Writer) error {
	var b strings.Builder
	b.WriteString(pageStart)
	element(&b, "p", "", r.Title())
	for _, note := range r.Notes() {
		element(&b, "p", "note", note)
	}
	overview := []column{{}}
	for i := range r.Sides {
		overview = append(overview, column{name: r.Sides[i].Name})
	}
	var rows [][]string
	for _, row := range r.Rows() {
		rows = append(rows, append([]string{row.Name}, row.Values...))
	}
	table(&b, overview, rows)

	element(&b, "h2", "", "Load")
	if err := plot.SVG(&b, "load and denials over time", r.Charts()); err != nil { // it escapes texts
		return err
	}
	element(&b, "h2", "", "Policies")
	rows = nil
	for _, p := range r.Policies() {
		rows = append(rows, []string{p.File, p.Policy, p.Requests, p.Denied, p.Shadow})
	}
	table(&b, []column{{name: "file"}, {"policy", "l"}, {name: "requests"}, {name: "denied"}, {name: "shadow-denied"}}, rows)
	for i := range r.Sides {
		r.Sides[i].writeHTML(&b, r.Log429 > 0)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeHTML writes the clients with most denials, and if compared the differences from the log.
func (s *SideReport) writeHTML(b *strings.Builder, compared bool) {
	element(b, "h2", "", "Most denied by "+s.Name)
	var rows [][]string
	for _, c := range s.Spacings[0].Top {
		rows = append(rows, []string{c.Name(), fmt.Sprint(c.Denied), c.First.Format(time.DateTime), c.Last.Format(time.DateTime), c.AgentText()})
	}
	if rows == nil {
		rows = [][]string{{"none"}}
	}
	table(b, []column{{name: "client"}, {name: "denied"}, {name: "first"}, {name: "last"}, {name: "user agents"}}, rows)
	if !compared || len(s.Differences) == 0 {
		return
	}
	element(b, "h2", "", "Different in the log and by "+s.Name)
	rows = nil
	for _, d := range s.Differences {
		rows = append(rows, []string{d.At.Format("2006-01-02 15:04:05.000000"), d.Client.String(), d.Method + " " + d.Path, fmt.Sprint(d.Log), d.Here()})
	}
	table(b, []column{{name: "at"}, {"client", "l"}, {"request", "l"}, {name: "log"}, {"here", "l"}}, rows)
}

// A column is one of a table. Class l aligns it to the left.
type column struct{ name, class string }

func table(b *strings.Builder, columns []column, rows [][]string) {
	b.WriteString("<table>\n<tr>")
	for _, c := range columns {
		element(b, "th", c.class, c.name)
	}
	for _, row := range rows {
		b.WriteString("</tr>\n<tr>")
		for i, text := range row {
			element(b, "td", columns[i].class, text)
		}
	}
	b.WriteString("</tr>\n</table>\n")
}

// element writes an element with escaped text.
func element(b *strings.Builder, name, class, text string) {
	b.WriteString("<" + name)
	if class != "" {
		b.WriteString(` class="` + class + `"`)
	}
	b.WriteString(">" + html.EscapeString(text) + "</" + name + ">")
	if name != "td" && name != "th" {
		b.WriteString("\n")
	}
}
