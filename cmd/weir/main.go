// Command weir is the Weir rate limiter: it serves a gateway and an HTTP API, checks policy
// files, and requests tokens from a shell. `weir help` lists the commands.
package main

import (
	"context"
	"os"
	"path/filepath"
	_ "time/tzdata" // calendars work on machines without time zones

	"github.com/floodweir/weir/cmd/weir/internal/cli"
	"github.com/floodweir/weir/cmd/weir/internal/vetcheck"
)

func main() {
	if vetcheck.Asked(os.Args[1:]) { // go vet -vettool passes no subcommand
		os.Exit(vetcheck.Main(os.Args[1:], os.Stdout, os.Stderr))
	}
	args := os.Args[1:]
	if filepath.Base(os.Args[0]) == "ratelimit" { // as in the image of envoyproxy/ratelimit
		args = []string{"ratelimit"}
	}
	os.Exit(cli.Run(context.Background(), args, os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}
