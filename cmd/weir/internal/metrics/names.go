package metrics

import (
	"strings"
	"sync"
)

// other is the label of names without series of their own.
const other = "other"

// maxLabel is the maximum length of a label, in bytes.
const maxLabel = 128

// short cuts s at maxLabel.
func short(s string) string { return s[:min(len(s), maxLabel)] }

// label returns s as a label: cut, valid UTF-8, and without a reference to the memory of
// s.
func label(s string) string { return strings.Clone(strings.ToValidUTF8(short(s), "\uFFFD")) }

// names are the names with series of their own.
type names struct {
	max int

	mu    sync.Mutex
	known map[string]bool
}

// place returns the label of a name: itself, or other beyond max names.
func (n *names) place(name string) (value string, own bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name = label(name)
	if !n.known[name] {
		if len(n.known) >= n.max {
			return other, false
		}
		if n.known == nil {
			n.known = map[string]bool{}
		}
		n.known[name] = true
	}
	return name, true
}

// prune removes the names that keep rejects, and returns them.
func (n *names) prune(keep func(string) bool) (removed []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name := range n.known {
		if !keep(name) {
			removed = append(removed, name)
			delete(n.known, name)
		}
	}
	return removed
}
