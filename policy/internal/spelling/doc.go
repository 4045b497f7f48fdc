// Package spelling normalizes paths and hosts like servers do, so that a pattern matches every
// spelling of a path or host. It also checks texts of HTTP.
package spelling

import "strings"

// MaxText is the longest pattern, in bytes.
const MaxText = 1024

// HasControl reports whether s has a control character.
func HasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}
