// Mutants checks that tests catch a list of planted bugs.
//
//	mutants [-root DIR] [-list FILE] [-only REGEXP] [-tags LIST] [-timeout D] [-v]
//
// It copies the tree to a temporary directory and runs the tests that the list names.
// Without a change they have to pass; with one mutant planted they have to fail. It never
// edits the tree itself.
//
// It prints one line for each mutant: caught, MISSED, or BROKEN if it does not compile. It
// exits with 1 unless all are caught, or if the list does not fit the tree.
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
	verbose := flags.Bool("v", false, "print the tests' output")
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return false, err
	}
	mutants, err := readList(*list)
	if err != nil {
		return false, err
	}
	if err := check(*root, mutants); err != nil {
		return false, err
	}
	mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return !match.MatchString(m.name) })
	dir, err := os.MkdirTemp("", "weir-mutants-*")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	if err := copyTree(ctx, *root, dir); err != nil {
		return false, err
	}
	r := runner{dir: dir, tags: *tags, timeout: *timeout, out: w, verbose: *verbose}
	start := time.Now()
	useless := r.baseline(ctx, mutants)
	fmt.Fprintf(w, "without mutants: %d targets fail (%s)\n", len(useless), time.Since(start).Round(time.Second))
	bad := 0
	for i := range mutants {
		m := &mutants[i]
		m.tests = slices.DeleteFunc(m.tests, func(t target) bool { return useless[t] })
		if !r.try(ctx, m) {
			bad++
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
	}
	fmt.Fprintf(w, "%d of %d mutants caught (%s)\n", len(mutants)-bad, len(mutants), time.Since(start).Round(time.Second))
	return bad == 0 && len(useless) == 0, nil
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

// A runner runs tests in a copy of the tree.
type runner struct {
	dir     string
	tags    string
	timeout time.Duration
	out     io.Writer
	verbose bool
}

// baseline runs the tests of all mutants without a change. It returns the targets that
// fail or that have no test; they say nothing about a mutant.
func (r *runner) baseline(ctx context.Context, mutants []mutant) (useless map[target]bool) {
	useless = map[target]bool{}
	seen := map[target]bool{}
	for _, m := range mutants {
		for _, t := range m.tests {
			if seen[t] {
				continue
			}
			seen[t] = true
			out, err := r.test(ctx, t)
			switch {
			case err != nil:
				fmt.Fprintf(r.out, "BROKEN  %s fails without a mutant:\n%s", t, out)
			case strings.Contains(out, "no tests to run") || strings.Contains(out, "no test files"):
				fmt.Fprintf(r.out, "BROKEN  %s: no test has this name\n", t)
			default:
				continue
			}
			useless[t] = true
		}
	}
	return useless
}

// try plants one mutant, runs its tests and reports whether they fail.
func (r *runner) try(ctx context.Context, m *mutant) bool {
	start := time.Now()
	file := filepath.Join(r.dir, m.file)
	was, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte(strings.Replace(string(was), m.old, m.new, 1)), 0o644)
	}
	if err != nil {
		fmt.Fprintf(r.out, "BROKEN  %s: %v\n", m.name, err)
		return false
	}
	defer os.WriteFile(file, was, 0o644)
	for _, t := range m.tests {
		out, err := r.test(ctx, t)
		if r.verbose {
			fmt.Fprintln(r.out, out)
		}
		switch {
		case err == nil:
			continue
		case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
			fmt.Fprintf(r.out, "BROKEN  %s: does not compile:\n%s", m.name, out)
			return false
		}
		fmt.Fprintf(r.out, "caught  %-40s %5.1fs  %s\n", m.name, time.Since(start).Seconds(), failure(out))
		return true
	}
	fmt.Fprintf(r.out, "MISSED  %-40s %5.1fs  %s\n", m.name, time.Since(start).Seconds(), m.tests)
	return false
}

// test runs the tests of one target and returns their output.
func (r *runner) test(ctx context.Context, t target) (string, error) {
	args := []string{"test", "-vet=off", "-count=1", "-failfast", "-tags=" + r.tags, "-timeout=" + r.timeout.String()}
	if t.run != "" {
		args = append(args, "-run="+t.run)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, t.pkg)...)
	cmd.Dir = r.dir
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
