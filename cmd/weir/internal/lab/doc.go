// Package lab has the commands that try limits out: `weir sim` with simulated traffic,
// `weir replay` and `weir suggest` with the log of a server.
package lab
