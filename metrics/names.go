package metrics

import (
	"strings"
	"sync"
)

// other is the label of names without series of their own.
const other = "other"

// MaxLabel is the maximum length of a label, in bytes.
const MaxLabel = 128

// Label returns s as a label: cut at MaxLabel, valid UTF-8, and without a reference to the
// memory of s.
func Label(s string) string {
	return strings.Clone(strings.ToValidUTF8(s[:min(len(s), MaxLabel)], "\uFFFD"))
}

// names are the names with series of their own.
type names struct {
	max      int
	overflow Counter

	mu    sync.Mutex
	known map[string]bool
}

// place returns the label of a name: itself, or other beyond max names, and then the counter of
// events of such names.
func (n *names) place(name string) (value string, overflow Counter) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name = Label(name)
	if !n.known[name] {
		if len(n.known) >= n.max {
			return other, n.overflow
		}
		if n.known == nil {
			n.known = map[string]bool{}
		}
		n.known[name] = true
	}
	return name, nil
}

func (n *names) has(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known[name]
}

// prune removes the names that keep rejects.
func (n *names) prune(keep func(string) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name := range n.known {
		if !keep(name) {
			delete(n.known, name)
		}
	}
}
