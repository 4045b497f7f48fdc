// Package cli is the command line: serve, check, take and version.
package cli
