// Command program runs the shop that its only argument configures: a child.Order in JSON.
package main

import (
	"fmt"
	"os"

	"github.com/floodweir/weir/e2e/flashsale/child"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: program ORDER")
		os.Exit(2)
	}
	if err := child.Serve(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
}
