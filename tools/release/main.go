// Release tags all published modules in a scratch clone and checks them there.
//
//	release -version VERSION [-root DIR] [-dir DIR] [-rehearse]
//	release -api [-root DIR]
//
// The modules of the workspace require each other in version v0.0.0, with a replace directive,
// because go mod tidy ignores go.work. Released modules have neither: in the clone, release sets
// the version in dependency order, commits once, and tags each module on that commit. Then it
// serves the tags to the go command as a module proxy would. It checks that users obtain each
// module and each program from an empty directory with an empty module cache, and that the
// programs build reproducibly. It stops at the first failure.
//
// With -api it only compares the exported names with those of the last release.
//
// It never contacts the remote of the tree. At the end it prints the command that publishes
// the tags.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"golang.org/x/mod/semver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, w io.Writer) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	root := flags.String("root", ".", "the tree")
	version := flags.String("version", "", "the version to release, such as v0.1.0")
	dir := flags.String("dir", "", "the directory of the clone, which must not exist; default: a temporary one")
	rehearse := flags.Bool("rehearse", false, "check the commit and remove the clone: uncommitted changes and the changelog do not matter")
	api := flags.Bool("api", false, "only compare the exported names with the last release")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *api {
		r, err := open(ctx, *root, "")
		if err != nil {
			return err
		}
		u, err := r.newUser(ctx, true)
		if err != nil {
			return err
		}
		defer u.close()
		return u.compareAPI(ctx, w)
	}
	if semver.Canonical(*version) != *version || *version == "" {
		return fmt.Errorf("-version: got %q, want a version such as v0.1.0", *version)
	}
	if !*rehearse {
		if err := ready(ctx, *root, *version); err != nil {
			return err
		}
	}
	if *dir == "" {
		temp, err := os.MkdirTemp("", "weir-release-*")
		if err != nil {
			return err
		}
		*dir = filepath.Join(temp, "weir")
		if *rehearse {
			defer os.RemoveAll(temp)
		}
	}
	r, err := prepare(ctx, *root, *dir, *version)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "tagged %d modules in %s\n", len(r.modules), *dir)
	u, err := r.newUser(ctx, false)
	if err != nil {
		return err
	}
	defer u.close()
	if err := u.compareAPI(ctx, w); err != nil {
		return err
	}
	if err := u.check(ctx, w); err != nil {
		return err
	}
	if !*rehearse {
		fmt.Fprintf(w, "all checks passed; publish with: git -C %s push REMOTE --tags\n", *dir)
	}
	return nil
}
