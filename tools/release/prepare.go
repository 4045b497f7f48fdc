package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// A release is a clone with the tags of one version.
type release struct {
	dir      string   // the clone, or the tree for a comparison only
	version  string   // empty for a comparison only
	previous string   // the version of the last release before; empty if there is none
	modules  []string // directories of the published modules, each after those that it requires
}

// ready returns an error if the tree cannot be released. Reasons are uncommitted changes, a tag
// of this or of a higher version, and a changelog without a section of the version.
func ready(ctx context.Context, root, version string) error {
	changes, err := git(ctx, root, "status", "--porcelain")
	if err != nil {
		return err
	}
	if changes != "" {
		return fmt.Errorf("the tree has uncommitted changes:\n%s", changes)
	}
	last, err := lastVersion(ctx, root)
	if err != nil {
		return err
	}
	if semver.Compare(version, last) <= 0 {
		return fmt.Errorf("-version: got %s, want a version after %s", version, last)
	}
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	heading := "## [" + strings.TrimPrefix(version, "v") + "]"
	if !bytes.Contains(changelog, []byte("\n"+heading)) {
		return fmt.Errorf("CHANGELOG.md: no section %q", heading)
	}
	return nil
}

// lastVersion returns the highest version that the root module has a tag of, or "".
func lastVersion(ctx context.Context, root string) (string, error) {
	tags, err := git(ctx, root, "tag", "--list", "v*")
	if err != nil {
		return "", err
	}
	last := ""
	for _, t := range strings.Fields(tags) {
		if semver.Canonical(t) == t && semver.Compare(t, last) > 0 {
			last = t
		}
	}
	return last, nil
}

// open returns the release of a version in dir, before anything is tagged.
func open(ctx context.Context, dir, version string) (*release, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	previous, err := lastVersion(ctx, dir)
	if err != nil {
		return nil, err
	}
	published, err := modules(dir)
	return &release{dir: dir, version: version, previous: previous, modules: published}, err
}

// prepare clones the tree to dir, commits the requirements of all modules there, and tags them.
// The commit has the author and the time of the one that is released, so that it is the same
// in each attempt.
func prepare(ctx context.Context, root, dir, version string) (*release, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	if _, err := git(ctx, root, "clone", "-q", "--shared", root, dir); err != nil {
		return nil, err
	}
	if _, err := git(ctx, dir, "remote", "remove", "origin"); err != nil { // nothing is pushed by accident
		return nil, err
	}
	r, err := open(ctx, dir, version)
	if err != nil {
		return nil, err
	}
	if err := replaceInWorkspace(dir, version, r.modules); err != nil {
		return nil, err
	}
	sums := map[string][]sumLine{}
	for _, m := range r.modules {
		if err := setVersion(dir, m, version, sums); err != nil {
			return nil, err
		}
		if sums[m], err = sum(ctx, dir, m, version); err != nil {
			return nil, err
		}
	}
	return r, r.commit(ctx)
}

// sum returns the lines of go.sum for the module as it is in the index of the clone.
func sum(ctx context.Context, root, dir, version string) ([]sumLine, error) {
	if _, err := git(ctx, root, "add", "-A"); err != nil {
		return nil, err
	}
	tree, err := git(ctx, root, "write-tree")
	if err != nil {
		return nil, err
	}
	archive, err := os.CreateTemp("", "weir-module-*.zip")
	if err != nil {
		return nil, err
	}
	defer os.Remove(archive.Name())
	defer archive.Close()
	if err := writeZip(archive, root, dir, version, tree); err != nil {
		return nil, err
	}
	hash, err := dirhash.HashZip(archive.Name(), dirhash.Hash1)
	if err != nil {
		return nil, err
	}
	modHash, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) {
		return os.Open(filepath.Join(root, dir, "go.mod"))
	})
	if err != nil {
		return nil, err
	}
	p := modulePath(dir)
	return []sumLine{
		{module.Version{Path: p, Version: version}, hash},
		{module.Version{Path: p, Version: version + "/go.mod"}, modHash},
	}, nil
}

// writeZip writes the module in dir at a revision as module proxies serve it.
func writeZip(w io.Writer, root, dir, version, revision string) error {
	subdir := dir
	if dir == "." {
		subdir = ""
	}
	return zip.CreateFromVCS(w, module.Version{Path: modulePath(dir), Version: version}, root, revision, subdir)
}

// commit commits the index and tags each module on that commit.
func (r *release) commit(ctx context.Context) error {
	who, err := git(ctx, r.dir, "log", "-1", "--format="+
		"GIT_AUTHOR_NAME=%an%nGIT_AUTHOR_EMAIL=%ae%nGIT_AUTHOR_DATE=%aI%n"+
		"GIT_COMMITTER_NAME=%an%nGIT_COMMITTER_EMAIL=%ae%nGIT_COMMITTER_DATE=%cI")
	if err != nil {
		return err
	}
	if _, err := output(ctx, r.dir, strings.Split(who, "\n"), "git", "commit", "-q", "--no-verify", "-m", "release "+r.version); err != nil {
		return err
	}
	for _, m := range r.modules {
		if _, err := git(ctx, r.dir, "tag", tag(m, r.version)); err != nil {
			return err
		}
	}
	return nil
}

// git runs git in dir and returns its output.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	return output(ctx, dir, nil, "git", args...)
}

// output returns what a command writes to its standard output. Its error contains the last lines
// that the command writes to its standard error.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	c.Env = slices.Concat(os.Environ(), []string{"PWD=" + dir}, env)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, strings.Join(lines[max(0, len(lines)-10):], "\n"))
	}
	return strings.TrimSpace(string(out)), nil
}
