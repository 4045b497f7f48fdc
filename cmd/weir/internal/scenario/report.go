package scenario

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// A Report has the results of one test file.
type Report struct {
	File  string   `json:"file"`
	Tests []Result `json:"tests"`
}

// A Result is the result of one test.
type Result struct {
	Name      string   `json:"name"`
	Line      int      `json:"line"`
	Column    int      `json:"column"`
	Requests  int      `json:"requests"`
	Different int      `json:"different"` // requests whose decision differs
	Failure   *Failure `json:"failure,omitempty"`
}

// A Failure describes the first request of a test whose decision differs, or why the test
// could not run.
type Failure struct {
	File        string       `json:"-"`
	Line        int          `json:"line"`
	Column      int          `json:"column"`
	Step        string       `json:"step,omitempty"`
	Summary     string       `json:"request"`
	Differences []Difference `json:"differences,omitempty"`
	Policies    []string     `json:"policies,omitempty"`
}

// Text returns the failure in several lines.
func (f *Failure) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: ", f.File, f.Line, f.Column)
	if f.Step != "" {
		b.WriteString(f.Step + ": ")
	}
	b.WriteString(f.Summary + "\n")
	for _, d := range f.Differences {
		fmt.Fprintf(&b, "  %s: got %s, want %s\n", d.Field, d.Got, d.Want)
	}
	for _, p := range f.Policies {
		fmt.Fprintf(&b, "  policy %s\n", p)
	}
	return b.String()
}

// Failed returns the number of tests that failed.
func (r *Report) Failed() (n int) {
	for _, t := range r.Tests {
		if t.Failure != nil {
			n++
		}
	}
	return n
}

func (r *Report) requests() (n int) {
	for _, t := range r.Tests {
		n += t.Requests
	}
	return n
}

// WriteText writes the failures and a summary, and with verbose one line for each test.
func (r *Report) WriteText(w io.Writer, verbose bool) error {
	var b strings.Builder
	for _, t := range r.Tests {
		switch {
		case t.Failure != nil:
			fmt.Fprintf(&b, "FAIL %s\n%s", t.Name, t.Failure.Text())
			if t.Different > 1 {
				fmt.Fprintf(&b, "  and %d more of %d requests\n", t.Different-1, t.Requests)
			}
		case verbose:
			fmt.Fprintf(&b, "ok   %s (%s)\n", t.Name, number(t.Requests, "request"))
		}
	}
	if failed := r.Failed(); failed > 0 {
		fmt.Fprintf(&b, "%s: FAIL: %d of %s\n", r.File, failed, number(len(r.Tests), "test"))
	} else {
		fmt.Fprintf(&b, "%s: OK: %s, %s\n", r.File, number(len(r.Tests), "test"), number(r.requests(), "request"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// number returns n with a noun, such as "2 tests".
func number(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// WriteJSON writes reports as one JSON document.
func WriteJSON(w io.Writer, reports []Report) error {
	failed := 0
	for i := range reports {
		failed += reports[i].Failed()
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(struct {
		OK    bool     `json:"ok"`
		Files []Report `json:"files"`
	}{failed == 0, reports})
}

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name      string        `xml:"name,attr"`
	ClassName string        `xml:"classname,attr"`
	File      string        `xml:"file,attr"`
	Line      int           `xml:"line,attr"`
	Failure   *junitFailure `xml:"failure"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes reports in the XML format of JUnit, which CI systems read.
func WriteJUnit(w io.Writer, reports []Report) error {
	var all junitSuites
	for i := range reports {
		r := &reports[i]
		suite := junitSuite{Name: r.File, Tests: len(r.Tests), Failures: r.Failed()}
		for _, t := range r.Tests {
			c := junitCase{Name: t.Name, ClassName: r.File, File: r.File, Line: t.Line}
			if t.Failure != nil {
				c.Failure = &junitFailure{t.Failure.Summary, t.Failure.Text()}
			}
			suite.Cases = append(suite.Cases, c)
		}
		all.Tests, all.Failures = all.Tests+suite.Tests, all.Failures+suite.Failures
		all.Suites = append(all.Suites, suite)
	}
	out, err := xml.MarshalIndent(all, "", "  ")
	if err == nil {
		_, err = io.WriteString(w, xml.Header+string(out)+"\n")
	}
	return err
}
