// Package cli implements the commands of weir, one file per command.
package cli
