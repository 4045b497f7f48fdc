package metrics

import (
	"strings"
	"sync"
)

// other is the label of all that has no place of its own.
const other = "other"

// maxLabel is how much of a name that others choose is told, in bytes.
const maxLabel = 128

// short is s up to the length of a label.
func short(s string) string { return s[:min(len(s), maxLabel)] }

// label is s as the value of a label: short, and text. It keeps nothing else alive.
func label(s string) string { return strings.Clone(strings.ToValidUTF8(short(s), "\uFFFD")) }

// names are those that have series of their own.
type names struct {
	max int

	mu    sync.Mutex
	known map[string]bool
}

// place is the label of a name: itself as long as there is room, and then other.
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

// prune takes the place of every name that is not kept, and returns those names.
func (n *names) prune(keep func(string) bool) (gone []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name := range n.known {
		if !keep(name) {
			gone = append(gone, name)
			delete(n.known, name)
		}
	}
	return gone
}
