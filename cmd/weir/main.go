// Command weir limits rates: it serves a gateway and an HTTP API, checks policy
// files and asks about limits from a shell. `weir help` says more.
package main

import (
	"context"
	"os"
	_ "time/tzdata" // calendars need their zones where the machine has none

	"github.com/floodweir/weir/cmd/weir/internal/cli"
	"github.com/floodweir/weir/cmd/weir/internal/vetcheck"
)

func main() {
	if vetcheck.Asked(os.Args[1:]) { // by go vet -vettool, which knows no subcommands
		os.Exit(vetcheck.Main(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(cli.Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}
