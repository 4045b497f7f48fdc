package auditor

import (
	"fmt"
	"slices"
	"sync"
)

// firstFew is how many violations of an invariant are told in words.
const firstFew = 5

// A book is where checks are written down. It is safe for concurrent use.
type book struct {
	mu       sync.Mutex
	samples  int64
	findings map[Invariant]*Finding
	errors   []string
}

func newBook() *book {
	b := &book{findings: map[Invariant]*Finding{}}
	for _, name := range Invariants() {
		b.findings[name] = &Finding{}
	}
	return b
}

// check notes one check, and if it failed what was seen. It returns ok.
func (b *book) check(name Invariant, ok bool, format string, args ...any) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.findings[name]
	f.Checks++
	if ok {
		return true
	}
	f.Violations++
	if len(f.First) < firstFew {
		// The same violation is seen at every sample; once is enough to tell of it.
		if words := fmt.Sprintf(format, args...); !slices.Contains(f.First, words) {
			f.First = append(f.First, words)
		}
	}
	return false
}

// held notes n checks that all held.
func (b *book) held(name Invariant, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.findings[name].Checks += int64(n)
}

func (b *book) sampled() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.samples++
}

// failed notes what could not be looked at.
func (b *book) failed(what string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if words := fmt.Sprintf("%s: %v", what, err); len(b.errors) < firstFew && !slices.Contains(b.errors, words) {
		b.errors = append(b.errors, words)
	}
}

func (b *book) report() *Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &Report{Samples: b.samples, Findings: map[Invariant]Finding{}, Errors: slices.Clone(b.errors)}
	for name, f := range b.findings {
		c := *f
		c.First = slices.Clone(f.First)
		r.Findings[name] = c
	}
	return r
}
