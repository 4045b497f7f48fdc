package policy

import (
	"fmt"

	"github.com/floodweir/weir/internal/fault"
)

// An Error describes one invalid field of a Config: its Policy, Field and Value, and in
// Want the values that are accepted. It wraps weir.ErrInvalid.
type Error = fault.Error

// faults collects the errors of one policy.
type faults = fault.Collector

// count returns "1 thing" or "n things".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
