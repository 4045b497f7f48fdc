package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

type counts struct{ passed, failed, skipped int }

func (c *counts) add(d counts) {
	c.passed += d.passed
	c.failed += d.failed
	c.skipped += d.skipped
}

// event is a line of go test -json.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

// A timing records how long the tests of a package ran.
type timing struct {
	name    string
	seconds float64
}

// name is a test, or a package or a build if its test is empty.
type name struct{ pkg, test string }

// tally counts the tests of a stream of go test -json and writes the output of the failed
// ones to out. It passes lines that are not events through. It returns the packages that
// took a second or more, the slowest first.
func tally(stream io.Reader, out io.Writer) (counts, []timing, error) {
	var slow []timing
	output := map[name]*strings.Builder{}
	ended := map[name]string{}
	crashed := map[string]bool{}
	parents := map[name]bool{}
	var order []name
	lines := bufio.NewReader(stream)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil {
				fmt.Fprint(out, line)
			} else {
				n := name{e.Package + e.ImportPath, e.Test}
				b := output[n]
				if b == nil {
					b = &strings.Builder{}
					output[n], order = b, append(order, n)
					for i := range e.Test {
						if e.Test[i] == '/' {
							parents[name{n.pkg, e.Test[:i]}] = true
						}
					}
				}
				switch e.Action {
				case "output", "build-output":
					if crashed[e.Package] || e.Test != "" && startsCrash(e.Output) {
						// go test gives it to the test that wrote last, which may have passed.
						crashed[e.Package] = true
						b = output[name{e.Package, ""}]
					}
					b.WriteString(e.Output)
				case "pass", "fail", "skip", "build-fail":
					ended[n] = e.Action
					if e.Test == "" && e.Elapsed >= 1 {
						slow = append(slow, timing{e.Package, e.Elapsed})
					}
				}
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return counts{}, nil, err
		}
	}

	var c counts
	for _, n := range order {
		end := ended[n]
		if n.test != "" && end == "" {
			end = "fail" // the process ended before the test
		}
		if end == "fail" || end == "build-fail" {
			fmt.Fprint(out, output[n])
		}
		if end == "skip" && n.test != "" {
			fmt.Fprint(out, output[n])
		}
		if n.test == "" || parents[n] && end != "fail" {
			continue
		}
		switch {
		case parents[n] && failedBelow(n, ended):
		case end == "fail":
			c.failed++
		case end == "skip":
			c.skipped++
		default:
			c.passed++
		}
	}
	slices.SortFunc(slow, func(a, b timing) int { return cmp.Compare(b.seconds, a.seconds) })
	return c, slow, nil
}

// startsCrash reports whether a line begins the report of a process that ends, with its goroutines.
func startsCrash(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") || strings.HasPrefix(line, "SIGQUIT: ")
}

// failedBelow reports whether a subtest of n failed, and was counted for it.
func failedBelow(n name, ended map[name]string) bool {
	for m, end := range ended {
		if end == "fail" && m.pkg == n.pkg && strings.HasPrefix(m.test, n.test+"/") {
			return true
		}
	}
	return false
}
