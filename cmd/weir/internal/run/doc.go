// Package run assembles the program: it builds the stores and the interfaces from a
// configuration, starts them in order and stops them in reverse.
package run
