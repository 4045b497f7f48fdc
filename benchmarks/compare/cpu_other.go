//go:build !unix

package compare

import "errors"

// Own returns an error: it is supported on Unix only.
func Own() (float64, error) { return 0, errors.New("compare: CPU time is measured on Unix only") }
