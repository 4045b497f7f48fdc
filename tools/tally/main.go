// Command tally runs the tests of several stages and counts them together.
//
//	tally STAGE [VAR=value…] [flags of go test] -- PACKAGES… [then STAGE …]
//
// Each stage is one call of go test, which builds and runs several packages at once. For
// each stage tally prints one line, the seconds of its slowest packages, and the output of
// failed tests. The last line counts the tests that passed, failed and were skipped; a
// test with subtests counts as its subtests. tally fails if a test failed or was skipped,
// or if no test ran.
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

// A stage holds packages whose tests run in the same way.
type stage struct {
	name            string
	env, flags, pkg []string
}

// parse splits args into stages.
func parse(args []string) ([]stage, error) {
	var all []stage
	for {
		part, rest := args, []string(nil)
		then := slices.Index(args, "then")
		if then >= 0 {
			part, rest = args[:then], args[then+1:]
		}
		dashes := slices.Index(part, "--")
		if dashes < 1 || dashes == len(part)-1 || strings.HasPrefix(part[0], "-") {
			return nil, fmt.Errorf("usage: tally STAGE [VAR=value…] [flags of go test] -- PACKAGES… [then STAGE …]")
		}
		s := stage{name: part[0]}
		for _, a := range part[1:dashes] {
			if strings.HasPrefix(a, "-") {
				s.flags = append(s.flags, a)
			} else {
				s.env = append(s.env, a)
			}
		}
		s.pkg = part[dashes+1:]
		all = append(all, s)
		if then < 0 {
			return all, nil
		}
		args = rest
	}
}

func run(args []string, out io.Writer) error {
	stages, err := parse(args)
	if err != nil {
		return err
	}
	var sum counts
	var broken []string
	for _, s := range stages {
		start := time.Now()
		c, slow, err := s.test(out)
		fmt.Fprintf(out, "%-8s%5d passed %3d failed %3d skipped %7.1fs  %s %s\n", verdict(c, err), c.passed, c.failed, c.skipped,
			time.Since(start).Seconds(), s.name, strings.Join(s.flags, " "))
		for _, p := range slow {
			fmt.Fprintf(out, "%44.1fs    %s\n", p.seconds, p.name)
		}
		if err != nil {
			broken = append(broken, s.name)
		}
		sum.add(c)
	}
	fmt.Fprintf(out, "\n%d passed, %d failed, %d skipped\n", sum.passed, sum.failed, sum.skipped)
	switch {
	case len(broken) > 0 || sum.failed > 0:
		return fmt.Errorf("failed: %v", broken)
	case sum.skipped > 0:
		return fmt.Errorf("skipped tests prove nothing")
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

// test runs the tests of one stage. It returns the packages that took a second or more.
func (s stage) test(out io.Writer) (counts, []timing, error) {
	cmd := exec.Command("go", append(append([]string{"test", "-json"}, s.flags...), s.pkg...)...)
	cmd.Env = append(os.Environ(), s.env...)
	cmd.Stderr = out
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return counts{}, nil, err
	}
	if err := cmd.Start(); err != nil {
		return counts{}, nil, err
	}
	c, slow, err := tally(pipe, out)
	if werr := cmd.Wait(); werr != nil {
		err = werr
	}
	return c, slow, err
}
