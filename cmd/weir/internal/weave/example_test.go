package weave_test

import (
	"context"
	"fmt"
	"os"

	"github.com/floodweir/weir/cmd/weir/internal/weave"
)

func ExampleRun() {
	code, err := weave.Run(context.Background(), weave.Config{Stdout: os.Stdout, Stderr: os.Stderr},
		[]string{"list", "-f", "{{.Name}}", "."})
	fmt.Println(code, err)
	// Output:
	// weave
	// 0 <nil>
}
