package replay

import (
	_ "embed"
	"html/template"
	"io"
	"strings"

	"github.com/floodweir/weir/cmd/weir/internal/plot"
)

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Parse(page))

// WriteHTML writes the report as one page without script and without references to others.
func (r *Report) WriteHTML(w io.Writer) error {
	var svg strings.Builder
	if err := plot.SVG(&svg, "load and denials over time", r.Charts()); err != nil {
		return err
	}
	return pageTemplate.Execute(w, struct {
		*Report
		Plot template.HTML // made by plot.SVG, which escapes texts
	}{r, template.HTML(svg.String())})
}
