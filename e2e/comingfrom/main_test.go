// Package comingfrom holds the examples of docs/coming-from.md. Every Go block of the page is
// part of the body of one of them, with its output.
package comingfrom_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/floodweir/weir/memstore"
)

// TestMain writes the policy files of the page where its examples read them.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		bs, err := blocks(page)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		dir, err := os.MkdirTemp("", "weir-coming-from-*")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		for _, b := range bs {
			if m := fileName.FindStringSubmatch(b.text); m != nil && b.kind == "yaml" {
				if err := os.WriteFile(filepath.Join(dir, m[1]), []byte(b.text), 0o644); err != nil {
					fmt.Fprintln(os.Stderr, err)
					return 1
				}
			}
		}
		here, err := os.Getwd()
		if err == nil {
			err = os.Chdir(dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.Chdir(here)
		return m.Run()
	}())
}

var ctx = context.Background()

// still returns a memory store whose clock is stopped at the beginning of a second.
func still() *memstore.Store {
	store, err := memstore.New(memstore.Config{Clock: func() int64 { return 1_800_000_000_000_000 }})
	if err != nil {
		panic(err)
	}
	return store
}
