package algo

// A Calendar cuts time into windows that are not all of one length: days, weeks
// and months of a time zone. Implementations are immutable and safe for
// concurrent use.
type Calendar interface {
	// Window is the window that contains the instant now, µs: start ≤ now < end.
	// The window after it starts at end.
	Window(now int64) (start, end int64)
	// Longest is the length of the longest window, µs.
	Longest() int64
}
