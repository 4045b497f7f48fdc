// Command flashsale sells a thousand units to a million buyers, and not one more.
// `flashsale help` says more.
package main

import (
	"context"
	"os"

	"github.com/floodweir/weir/flashsale/cli"
)

func main() {
	os.Exit(cli.Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}
