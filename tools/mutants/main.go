// Mutants checks that tests catch a list of planted bugs.
//
//	mutants [-root DIR] [-list FILE] [-only REGEXP] [-jobs N] [-tags LIST] [-timeout D] [-v]
//
// It copies the tree to temporary directories and runs the tests that the list names.
// Without a change they have to pass; with one mutant planted they have to fail. It never
// edits the tree itself.
//
// It prints one line for each mutant: caught, MISSED, or BROKEN if it does not compile. At
// the end it prints the counts of each area, the part of a name before the slash. It exits
// with 1 unless all are caught, or if the list does not fit the tree.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ok, err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// run reports whether the tests caught all mutants.
func run(ctx context.Context, args []string, w io.Writer) (ok bool, err error) {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	root := flags.String("root", ".", "the tree")
	list := flags.String("list", "tools/mutants/mutants.txt", "the list of mutants")
	only := flags.String("only", "", "run only the mutants whose names match this regular expression: of two areas, ^(algo|lua)/")
	tags := flags.String("tags", "crashpoints", "build tags of the tests")
	timeout := flags.Duration("timeout", 2*time.Minute, "of the tests of one mutant")
	jobs := flags.Int("jobs", 2, "tests at a time")
	verbose := flags.Bool("v", false, "print the tests' output")
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return false, err
	}
	if *jobs < 1 {
		return false, fmt.Errorf("-jobs: got %d, want at least 1", *jobs)
	}
	mutants, err := readList(*list)
	if err != nil {
		return false, err
	}
	if err := check(*root, mutants); err != nil {
		return false, err
	}
	mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return !match.MatchString(m.name) })
	r := runner{tags: *tags, timeout: *timeout, out: w, verbose: *verbose}
	for range *jobs {
		dir, err := os.MkdirTemp("", "weir-mutants-*")
		if err != nil {
			return false, err
		}
		defer os.RemoveAll(dir)
		if err := copyTree(ctx, *root, dir); err != nil {
			return false, err
		}
		r.dirs = append(r.dirs, dir)
	}
	start := time.Now()
	useless := r.baseline(ctx, mutants)
	fmt.Fprintf(w, "without mutants: %d targets fail (%s)\n", len(useless), time.Since(start).Round(time.Second))
	caught := make([]bool, len(mutants))
	r.each(len(mutants), func(dir string, i int) {
		m := &mutants[i]
		m.tests = slices.DeleteFunc(m.tests, func(t target) bool { return useless[t] })
		caught[i] = ctx.Err() == nil && r.try(ctx, dir, m)
	})
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	all := summary(w, mutants, caught)
	fmt.Fprintf(w, "total time %s\n", time.Since(start).Round(time.Second))
	return all && len(useless) == 0, nil
}

// summary prints the counts of each area and of all, and reports whether all were caught.
func summary(w io.Writer, mutants []mutant, caught []bool) bool {
	type count struct{ caught, all int }
	var areas []string
	counts := map[string]count{}
	total := 0
	for i, m := range mutants {
		area, _, _ := strings.Cut(m.name, "/")
		c := counts[area]
		if c.all++; c.all == 1 {
			areas = append(areas, area)
		}
		if caught[i] {
			c.caught++
			total++
		}
		counts[area] = c
	}
	slices.Sort(areas)
	for _, area := range areas {
		fmt.Fprintf(w, "%-16s %d of %d\n", area, counts[area].caught, counts[area].all)
	}
	fmt.Fprintf(w, "%d of %d mutants caught\n", total, len(mutants))
	return total == len(mutants)
}

// copyTree copies the files that git tracks, or would track, from root to dir.
func copyTree(ctx context.Context, root, dir string) error {
	cmd := exec.CommandContext(ctx, "git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for _, name := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join(root, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			return err
		}
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, data, info.Mode().Perm()); err != nil {
			return err
		}
	}
	return nil
}

// A runner runs tests in copies of the tree, one test at a time in each.
type runner struct {
	dirs    []string
	tags    string
	timeout time.Duration
	verbose bool

	mu  sync.Mutex // guards out
	out io.Writer
}

func (r *runner) printf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, format, args...)
}

// each calls do for 0 to n-1, in each directory one at a time.
func (r *runner) each(n int, do func(dir string, i int)) {
	next := make(chan int)
	var all sync.WaitGroup
	for _, dir := range r.dirs {
		all.Go(func() {
			for i := range next {
				do(dir, i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}

// baseline runs the tests of all mutants without a change. It returns the targets that
// fail or that have no test; they say nothing about a mutant.
func (r *runner) baseline(ctx context.Context, mutants []mutant) (useless map[target]bool) {
	var targets []target
	seen := map[target]bool{}
	for _, m := range mutants {
		for _, t := range m.tests {
			if !seen[t] {
				seen[t] = true
				targets = append(targets, t)
			}
		}
	}
	failed := make([]bool, len(targets))
	r.each(len(targets), func(dir string, i int) {
		out, err := r.test(ctx, dir, targets[i])
		switch {
		case err != nil:
			r.printf("BROKEN  %s fails without a mutant:\n%s", targets[i], out)
		case strings.Contains(out, "no tests to run") || strings.Contains(out, "no test files"):
			r.printf("BROKEN  %s: no test has this name\n", targets[i])
		default:
			return
		}
		failed[i] = true
	})
	useless = map[target]bool{}
	for i, t := range targets {
		if failed[i] {
			useless[t] = true
		}
	}
	return useless
}

// try plants one mutant in a copy, runs its tests and reports whether they fail.
func (r *runner) try(ctx context.Context, dir string, m *mutant) bool {
	start := time.Now()
	file := filepath.Join(dir, m.file)
	was, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte(strings.Replace(string(was), m.old, m.new, 1)), 0o644)
	}
	if err != nil {
		r.printf("BROKEN  %s: %v\n", m.name, err)
		return false
	}
	defer os.WriteFile(file, was, 0o644)
	for _, t := range m.tests {
		out, err := r.test(ctx, dir, t)
		if r.verbose {
			r.printf("%s\n", out)
		}
		switch {
		case err == nil:
			continue
		case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
			r.printf("BROKEN  %s: does not compile:\n%s", m.name, out)
			return false
		}
		r.printf("caught  %-40s %5.1fs  %s\n", m.name, time.Since(start).Seconds(), failure(out))
		return true
	}
	r.printf("MISSED  %-40s %5.1fs  %s\n", m.name, time.Since(start).Seconds(), m.tests)
	return false
}

// test runs the tests of one target and returns their output. The build
// flags are those of the Makefile, so that one build cache serves both.
func (r *runner) test(ctx context.Context, dir string, t target) (string, error) {
	args := []string{"test", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false", "-vet=off", "-count=1", "-failfast", "-tags=" + r.tags, "-timeout=" + r.timeout.String()}
	if t.run != "" {
		args = append(args, "-run="+t.run)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, t.pkg)...)
	cmd.Dir = dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// failure names the first test that failed.
func failure(out string) string {
	for _, line := range strings.Split(out, "\n") {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			name, _, _ = strings.Cut(name, " ")
			return name
		}
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return line
		}
	}
	return ""
}
