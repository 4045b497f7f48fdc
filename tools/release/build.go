package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// maxSizes are the largest sizes of programs for linux/amd64. The flash sale has none: it contains
// SQLite, and its pages are templates.
var maxSizes = map[string]int{"cmd/weir": 40_000_000}

// buildFlags are the flags of published programs. With grpcnotrace, no package of a program uses
// templates, so that the linker removes unused methods. Code that no request runs is not inlined.
var buildFlags = []string{
	"-trimpath", "-buildvcs=false", "-tags=grpcnotrace", "-ldflags=-s -w",
	"-gcflags=go/...=-l",
	"-gcflags=encoding/gob=-l",
	"-gcflags=golang.org/x/tools/...=-l",
	"-gcflags=charm.land/...=-l",
	"-gcflags=github.com/charmbracelet/...=-l",
	"-gcflags=github.com/antlr4-go/...=-l",
	"-gcflags=cel.dev/cel-go/parser/...=-l",
	"-gcflags=cel.dev/cel-go/checker/...=-l",
	"-gcflags=cel.dev/cel-go/common/...=-l",
	"-gcflags=github.com/spf13/...=-l",
	"-gcflags=go.yaml.in/...=-l",
	"-gcflags=go.opentelemetry.io/otel/sdk/...=-l",
}

// build builds the programs in two checkouts of the tag. They have to be identical, and small.
func (u *user) build(ctx context.Context, w io.Writer) error {
	second := filepath.Join(u.temp, "second")
	if _, err := git(ctx, u.release.dir, "worktree", "add", "-q", "--detach", second, tag(".", u.release.version)); err != nil {
		return err
	}
	defer git(context.WithoutCancel(ctx), u.release.dir, "worktree", "remove", "--force", second)
	env := []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOFLAGS=", "GOWORK="}
	for _, m := range programs {
		var content [2]string
		for i, tree := range []string{u.release.dir, second} {
			file := filepath.Join(u.temp, filepath.Base(m))
			args := append([]string{"build", "-o", file}, buildFlags...)
			if _, err := output(ctx, tree, env, "go", append(args, "./"+m)...); err != nil {
				return err
			}
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			content[i] = string(data)
		}
		if content[0] != content[1] {
			return fmt.Errorf("%s: two builds differ", m)
		}
		if size, most := len(content[0]), maxSizes[m]; most > 0 && size > most {
			return fmt.Errorf("%s: got %d bytes for linux/amd64, want at most %d", m, size, most)
		}
		fmt.Fprintf(w, "ok  two builds of %s for linux/amd64 are identical, %.1f MB\n", m, float64(len(content[0]))/1e6)
	}
	return nil
}
