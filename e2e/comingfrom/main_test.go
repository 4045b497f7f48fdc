// Package comingfrom holds the examples of docs/coming-from. Every Go block of its pages
// is part of the body of one of them, with its output.
package comingfrom_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/floodweir/weir/memstore"
)

// TestMain writes the policy files of the pages where their examples read them.
func TestMain(m *testing.M) {
	temp, err := os.MkdirTemp("", "weir-coming-from-*")
	if err == nil {
		err = writePolicyFiles(temp)
	}
	if err == nil {
		err = os.Chdir(temp)
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	os.Chdir(dir)
	os.RemoveAll(temp)
	os.Exit(code)
}

func writePolicyFiles(to string) error {
	names, err := pages()
	if err != nil {
		return err
	}
	for _, name := range names {
		bs, err := blocks(name)
		if err != nil {
			return err
		}
		for _, b := range bs {
			if m := fileName.FindStringSubmatch(b.text); m != nil && b.kind == "yaml" {
				if err := os.WriteFile(filepath.Join(to, m[1]), []byte(b.text), 0o644); err != nil {
					return err
				}
			}
		}
	}
	return nil
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
