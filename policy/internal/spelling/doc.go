// Package spelling reads paths and hosts as servers do: however a client spells one, it
// says the same. A pattern that matches one spelling matches all.
package spelling

import "strings"

// MaxText is the longest pattern, in bytes.
const MaxText = 1024

// HasControl reports whether s has a control character.
func HasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}
