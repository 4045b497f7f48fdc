// Command tally runs tests in several places and counts them together.
//
//	tally [VAR=value…] [flags of go test] -- PLACE… [then …]
//
// A place is a directory, for the package in it, or a directory and /... for
// everything below it. Several of them, below the working directory and joined by
// commas, are one place: go test gets them together, and builds and runs several at
// once. For each place tally prints one line, and the output of
// what failed. It closes with the number of tests that passed, failed and were
// skipped; a test with subtests counts as its subtests. It fails if a test
// failed, was skipped, or if there was none.
package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(1)
	}
}

// A group is places whose tests run in the same way.
type group struct{ env, flags, places []string }

// parse splits args into groups.
func parse(args []string) ([]group, error) {
	var gs []group
	for {
		part, rest := args, []string(nil)
		then := slices.Index(args, "then")
		if then >= 0 {
			part, rest = args[:then], args[then+1:]
		}
		dashes := slices.Index(part, "--")
		if dashes < 0 || dashes == len(part)-1 {
			return nil, fmt.Errorf("usage: tally [VAR=value…] [flags of go test] -- PLACE… [then …]")
		}
		var g group
		for _, a := range part[:dashes] {
			if strings.HasPrefix(a, "-") {
				g.flags = append(g.flags, a)
			} else {
				g.env = append(g.env, a)
			}
		}
		g.places = part[dashes+1:]
		gs = append(gs, g)
		if then < 0 {
			return gs, nil
		}
		args = rest
	}
}

func run(args []string, out io.Writer) error {
	groups, err := parse(args)
	if err != nil {
		return err
	}
	var sum counts
	var broken []string
	for _, g := range groups {
		for _, place := range g.places {
			start := time.Now()
			c, err := g.test(place, out)
			fmt.Fprintf(out, "%-8s%5d passed %3d failed %3d skipped %7.1fs  %s\n", verdict(c, err), c.passed, c.failed, c.skipped,
				time.Since(start).Seconds(), strings.Join(append([]string{strings.ReplaceAll(place, ",", " ")}, g.flags...), " "))
			if err != nil {
				broken = append(broken, place)
			}
			sum.add(c)
		}
	}
	fmt.Fprintf(out, "\n%d passed, %d failed, %d skipped\n", sum.passed, sum.failed, sum.skipped)
	switch {
	case len(broken) > 0 || sum.failed > 0:
		return fmt.Errorf("failed: %v", broken)
	case sum.skipped > 0:
		return fmt.Errorf("a skipped test has shown nothing")
	case sum.passed == 0:
		return fmt.Errorf("no test ran")
	}
	return nil
}

func verdict(c counts, err error) string {
	switch {
	case err != nil || c.failed > 0:
		return "FAIL"
	case c.skipped > 0:
		return "SKIPPED"
	}
	return "ok"
}

// test runs the tests of one place.
func (g group) test(place string, out io.Writer) (counts, error) {
	dir, patterns := ".", strings.Split(place, ",")
	for i, p := range patterns {
		patterns[i] = "./" + p
	}
	if len(patterns) == 1 {
		var below bool
		if dir, below = strings.CutSuffix(place, "/..."); below {
			patterns[0] = "./..."
		} else {
			patterns[0] = "."
		}
	}
	cmd := exec.Command("go", append(append([]string{"test", "-json"}, g.flags...), patterns...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), g.env...)
	cmd.Stderr = out
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return counts{}, err
	}
	if err := cmd.Start(); err != nil {
		return counts{}, err
	}
	c, err := tally(pipe, out)
	if werr := cmd.Wait(); werr != nil {
		err = werr
	}
	return c, err
}
