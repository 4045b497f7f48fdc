// Command verify checks the flash sale from outside: it audits what a sale did, puts load on
// a shop and compares lock designs. `verify help` lists its commands.
package main

import (
	"context"
	"os"

	"github.com/floodweir/weir/flashsale/verify/cli"
)

func main() {
	os.Exit(cli.Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}
