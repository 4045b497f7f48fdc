package generate_test

import (
	"context"
	"fmt"

	"github.com/floodweir/weir/cmd/weir/internal/generate"
)

// ExampleGenerate reads a directory without directives.
func ExampleGenerate() {
	_, err := generate.Generate(context.Background(), generate.Config{Dir: "/", Env: env()})
	fmt.Println(err)
	// Output:
	// generate: load .: go: go.mod file not found in current directory or any parent directory; see 'go help modules'
}
