//go:build unix

package compare

import "syscall"

// Own returns the CPU time of this process in ns.
func Own() (float64, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return float64(u.Utime.Nano() + u.Stime.Nano()), nil
}
