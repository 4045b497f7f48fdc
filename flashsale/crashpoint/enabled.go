//go:build crashpoints

package crashpoint

// Enabled reports whether this build calls hooks.
const Enabled = true

// A Hook is called with the name of each crash point that a process reaches. The zero value
// does nothing.
type Hook func(point string)

// New returns a Hook that calls f.
func New(f func(point string)) Hook { return f }

// At calls the hook, if there is one.
func (h Hook) At(point string) {
	if h != nil {
		h(point)
	}
}
