// Command tally runs the tests of several stages and counts them together.
//
//	tally STAGE [VAR=value…] [flags of go test] -- PACKAGES… [beside|next|then STAGE …]
//
// Each stage is one call of go test, which builds and runs several packages at once. A stage
// after beside starts with the stage before it, one after next when that stage has ended, and
// one after then when all have ended. So "a next b beside c then d" starts a and c, b after a,
// and d at the end. For each stage tally prints one line with its time
// and the CPU time of its processes, the seconds of its slowest packages, and the output of
// failed tests. The last line counts the tests that passed, failed and were skipped; a
// test with subtests counts as its subtests. tally fails if a test failed or was skipped,
// or if no test ran.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
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
	when            string // beside, next or then; empty for the first
}

// parse splits args into stages.
func parse(args []string) ([]stage, error) {
	var all []stage
	when := ""
	for {
		part, rest := args, []string(nil)
		end := slices.IndexFunc(args, func(a string) bool { return a == "beside" || a == "next" || a == "then" })
		if end >= 0 {
			part, rest = args[:end], args[end+1:]
		}
		dashes := slices.Index(part, "--")
		if dashes < 1 || dashes == len(part)-1 || strings.HasPrefix(part[0], "-") {
			return nil, fmt.Errorf("usage: tally STAGE [VAR=value…] [flags of go test] -- PACKAGES… [beside|next|then STAGE …]")
		}
		s := stage{name: part[0], when: when}
		for _, a := range part[1:dashes] {
			if strings.HasPrefix(a, "-") {
				s.flags = append(s.flags, a)
			} else {
				s.env = append(s.env, a)
			}
		}
		s.pkg = part[dashes+1:]
		all = append(all, s)
		if end < 0 {
			return all, nil
		}
		args, when = rest, args[end]
	}
}

func run(args []string, out io.Writer) error {
	stages, err := parse(args)
	if err != nil {
		return err
	}
	var mu sync.Mutex // guards sum, broken and writes to out
	var sum counts
	var broken []string
	var running sync.WaitGroup
	for len(stages) > 0 {
		n := 1 // stages that run one after the other
		for n < len(stages) && stages[n].when == "next" {
			n++
		}
		lane := stages[:n]
		stages = stages[n:]
		if lane[0].when == "then" {
			running.Wait()
		}
		running.Go(func() {
			for _, s := range lane {
				var text bytes.Buffer
				c, err := s.report(&text)
				mu.Lock()
				text.WriteTo(out)
				if err != nil {
					broken = append(broken, s.name)
				}
				sum.add(c)
				mu.Unlock()
			}
		})
	}
	running.Wait()
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

// report runs the tests of a stage and writes its lines.
func (s stage) report(out io.Writer) (counts, error) {
	start := time.Now()
	c, slow, cpu, err := s.test(out)
	fmt.Fprintf(out, "%-8s%5d passed %3d failed %3d skipped %7.1fs %7.1fs CPU  %s %s\n", verdict(c, err), c.passed, c.failed, c.skipped,
		time.Since(start).Seconds(), cpu.Seconds(), s.name, strings.Join(s.flags, " "))
	for _, p := range slow {
		fmt.Fprintf(out, "%44.1fs    %s\n", p.seconds, p.name)
	}
	return c, err
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

// test runs the tests of one stage. It returns the packages that took a second or more, and
// the CPU time of go test and the processes that it waited for.
func (s stage) test(out io.Writer) (c counts, slow []timing, cpu time.Duration, err error) {
	cmd := exec.Command("go", append(append([]string{"test", "-json"}, s.flags...), s.pkg...)...)
	cmd.Env = append(os.Environ(), s.env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return c, nil, 0, err
	}
	if err := cmd.Start(); err != nil {
		return c, nil, 0, err
	}
	c, slow, err = tally(pipe, out)
	if werr := cmd.Wait(); werr != nil {
		err = werr
	}
	stderr.WriteTo(out)
	return c, slow, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
}
