package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// apidiff compares the exported names of two versions of a module. Its dependencies are not in
// go.mod: the go command builds it in its own module.
const apidiff = "golang.org/x/exp/cmd/apidiff@v0.0.0-20261014143641-f0251eb4aa3e"

// compareAPI prints the changes of the exported names since the last release. Incompatible ones
// are an error if the version does not announce them.
func (u *user) compareAPI(ctx context.Context, w io.Writer) error {
	r := u.release
	if r.previous == "" {
		fmt.Fprintln(w, "api: no earlier version to compare with")
		return nil
	}
	temp, err := os.MkdirTemp("", "weir-api-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	old := filepath.Join(temp, "tree")
	if _, err := git(ctx, r.dir, "worktree", "add", "-q", "--detach", old, r.previous); err != nil {
		return err
	}
	defer git(context.WithoutCancel(ctx), r.dir, "worktree", "remove", "--force", old)

	for _, m := range r.modules {
		if slices.Contains(programs, m) {
			continue // their packages are internal, or follow the program
		}
		if _, err := os.Stat(filepath.Join(old, m, "go.mod")); err != nil {
			fmt.Fprintf(w, "api: %s is new\n", modulePath(m))
			continue
		}
		files := [2]string{filepath.Join(temp, "old"), filepath.Join(temp, "new")}
		for i, tree := range []string{old, r.dir} {
			if _, err := output(ctx, filepath.Join(tree, m), u.env, "go", "run", apidiff, "-m", "-w", files[i], modulePath(m)); err != nil {
				return err
			}
		}
		changes, err := output(ctx, temp, u.env, "go", "run", apidiff, "-m", files[0], files[1])
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "api: %s since %s: %s\n", modulePath(m), r.previous, cmp.Or(changes, "no changes"))
		if r.version != "" && strings.Contains(changes, "Incompatible changes:") && !announcesBreak(r.previous, r.version) {
			return fmt.Errorf("%s: incompatible changes since %s need another version than %s:\n%s", modulePath(m), r.previous, r.version, changes)
		}
	}
	return nil
}

// announcesBreak reports whether a version may contain incompatible changes: a new major version,
// or a new minor version before v1.
func announcesBreak(previous, version string) bool {
	if semver.Major(version) == "v0" {
		return semver.MajorMinor(previous) != semver.MajorMinor(version)
	}
	return semver.Major(previous) != semver.Major(version)
}
