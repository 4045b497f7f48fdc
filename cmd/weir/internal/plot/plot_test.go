package plot_test

import (
	"bytes"
	"encoding/xml"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/plot"
)

func charts() []plot.Chart {
	return []plot.Chart{
		{Title: `a <b> & "c"`, Note: "n", Unit: "requests/s", Labels: [2]string{"0", "10s"}, Series: []plot.Series{
			{Name: "offered", Values: []float64{0, 5, 10}}, {Name: "admitted", Values: []float64{0, 10, 10}}, {Name: "other", Values: []float64{0, math.NaN(), 10}},
		}},
		{Title: "none", Series: []plot.Series{{Name: "denied", Values: []float64{0, 0}}}},
		{Title: "last", Series: []plot.Series{{Name: "denied", Values: []float64{1, 2100}}}},
	}
}

// TestSVG checks that an SVG is XML that refers to nothing outside, and that labels of lines
// that end together are apart.
func TestSVG(t *testing.T) {
	var b bytes.Buffer
	if err := plot.SVG(&b, "title <1>", charts()); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(bytes.NewReader(b.Bytes()))
	var labels []int
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("the SVG is not XML: %v\n%s", err, b.String())
		}
		if e, ok := token.(xml.StartElement); ok {
			for _, a := range e.Attr {
				if a.Name.Local == "href" || strings.Contains(a.Value, "url(") || strings.Contains(a.Value, "NaN") {
					t.Errorf("%s has %s=%q", e.Name.Local, a.Name.Local, a.Value)
				}
			}
		}
	}
	for _, m := range regexp.MustCompile(`y="(\d+)">(offered|admitted|other)<`).FindAllStringSubmatch(b.String(), -1) {
		y, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range labels {
			if y-other < 12 && other-y < 12 {
				t.Errorf("labels at %d and %d overlap", other, y)
			}
		}
		labels = append(labels, y)
	}
	if len(labels) != 3 {
		t.Errorf("%d labels, want 3", len(labels))
	}
	for _, want := range []string{"prefers-color-scheme:dark", `viewBox="0 0 880 380"`, ">2.5k", "a &lt;b&gt; &amp; &quot;c&quot;", `aria-label="title &lt;1&gt;"`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the SVG has no %s", want)
		}
	}
}

// TestText checks that a plot fits the terminal and names its series.
func TestText(t *testing.T) {
	var b bytes.Buffer
	c := charts()[0]
	if err := c.Text(&b, 60); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := len([]rune(strings.TrimRight(line, " \n"))); n > 60 {
			t.Errorf("%d columns, want 60 or fewer: %q", n, line)
		}
	}
	for _, want := range []string{"· offered  ─ admitted  × other", "0 to 10s, requests/s", " 10 ┤"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the plot has no %q:\n%s", want, b.String())
		}
	}
}
