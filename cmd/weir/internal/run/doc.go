// Package run joins the parts of the program: it builds the store and the doors
// from a configuration, starts them in order and stops them in reverse.
package run
