package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A mutant is a planted bug: old becomes new in file, and one of the tests has to fail.
type mutant struct {
	name, file, old, new string
	tests                []target
}

// A target is a package and a regular expression for go test -run, which may be empty.
type target struct{ pkg, run string }

func (t target) String() string { return strings.TrimSpace(t.pkg + " " + t.run) }

// readList reads a list of mutants. A line with "mutant" begins one; see the top of
// mutants.txt for the form of its lines.
func readList(file string) ([]mutant, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []mutant
	names := map[string]bool{}
	for i, block := range strings.Split("\n"+string(data), "\nmutant ") {
		if i > 0 {
			block = "mutant " + block
		}
		m, err := parse(block)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: mutant %d: %q: %w", file, i, m.name, err)
		case m.name == "":
			continue // only comments
		case names[m.name]:
			return nil, fmt.Errorf("%s: %q: got this name twice", file, m.name)
		}
		names[m.name] = true
		all = append(all, m)
	}
	return all, nil
}

func parse(block string) (m mutant, err error) {
	var old, new []string
	for _, line := range strings.Split(block, "\n") {
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "", "#":
		case "mutant":
			m.name = rest
		case "file":
			m.file = rest
		case "test":
			pkg, run, _ := strings.Cut(rest, " ")
			m.tests = append(m.tests, target{pkg, run})
		case "-":
			old = append(old, rest)
		case "+":
			new = append(new, rest)
		default:
			return m, fmt.Errorf("line %q: want mutant, file, test, - or +", line)
		}
	}
	m.old, m.new = strings.Join(old, "\n"), strings.Join(new, "\n")
	if some := m.file + m.old + m.new; m.name == "" && some == "" && m.tests == nil {
		return m, nil
	}
	if m.name == "" || m.file == "" || m.old == "" || m.old == m.new || m.tests == nil {
		return m, errors.New("want a name, a file, a test, and an old text that differs from the new one")
	}
	return m, nil
}

// check reports every mutant whose old text does not occur exactly once in its file.
func check(root string, mutants []mutant) error {
	var errs []error
	for _, m := range mutants {
		data, err := os.ReadFile(filepath.Join(root, m.file))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.name, err))
		} else if n := strings.Count(string(data), m.old); n != 1 {
			errs = append(errs, fmt.Errorf("%s: %s: got the old text %d times, want once: %q", m.name, m.file, n, m.old))
		}
	}
	return errors.Join(errs...)
}
