package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
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
}

// name is a test, or a package or a build if its test is empty.
type name struct{ pkg, test string }

// tally counts the tests of a stream of go test -json and writes to out what
// the failed ones said. Lines that are no events are passed through.
func tally(stream io.Reader, out io.Writer) (counts, error) {
	said := map[name]*strings.Builder{}
	ended := map[name]string{}
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
				b := said[n]
				if b == nil {
					b = &strings.Builder{}
					said[n], order = b, append(order, n)
					for i := range e.Test {
						if e.Test[i] == '/' {
							parents[name{n.pkg, e.Test[:i]}] = true
						}
					}
				}
				switch e.Action {
				case "output", "build-output":
					b.WriteString(e.Output)
				case "pass", "fail", "skip", "build-fail":
					ended[n] = e.Action
				}
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return counts{}, err
		}
	}

	var c counts
	for _, n := range order {
		end := ended[n]
		if n.test != "" && end == "" {
			end = "fail" // it never ended: its process did
		}
		if end == "fail" || end == "build-fail" {
			fmt.Fprint(out, said[n])
		}
		if end == "skip" && n.test != "" {
			fmt.Fprint(out, said[n])
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
	return c, nil
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
