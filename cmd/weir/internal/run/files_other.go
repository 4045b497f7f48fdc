//go:build !unix

package run

import "math"

// openFiles returns the number of files that this process can open: no limit is known.
func openFiles() uint64 { return math.MaxUint64 }
