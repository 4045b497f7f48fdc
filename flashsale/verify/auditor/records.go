package auditor

import (
	"fmt"
	"slices"
	"sync"
)

// maxExamples is the number of violations of an invariant that a Finding describes.
const maxExamples = 5

// records collects checks and violations. It is safe for concurrent use.
type records struct {
	mu       sync.Mutex
	samples  int64
	findings map[Invariant]*Finding
	errors   []string
}

func newRecords() *records {
	b := &records{findings: map[Invariant]*Finding{}}
	for _, name := range Invariants() {
		b.findings[name] = &Finding{}
	}
	return b
}

// check counts one check and, if ok is false, a violation with a description. It returns ok.
func (b *records) check(name Invariant, ok bool, format string, args ...any) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.findings[name]
	f.Checks++
	if ok {
		return true
	}
	f.Violations++
	if len(f.Examples) < maxExamples {
		// Every sample finds the same violation again; one description is enough.
		if words := fmt.Sprintf(format, args...); !slices.Contains(f.Examples, words) {
			f.Examples = append(f.Examples, words)
		}
	}
	return false
}

// passed counts n checks without a violation.
func (b *records) passed(name Invariant, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.findings[name].Checks += int64(n)
}

func (b *records) addSample() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.samples++
}

// addError records a store that could not be read.
func (b *records) addError(what string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if words := fmt.Sprintf("%s: %v", what, err); len(b.errors) < maxExamples && !slices.Contains(b.errors, words) {
		b.errors = append(b.errors, words)
	}
}

func (b *records) report() *Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &Report{Samples: b.samples, Findings: map[Invariant]Finding{}, Errors: slices.Clone(b.errors)}
	for name, f := range b.findings {
		c := *f
		c.Examples = slices.Clone(f.Examples)
		r.Findings[name] = c
	}
	return r
}
