package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// A snapshot lists the files of a build.
type snapshot struct {
	temp      string
	tree      string // the clone that was built
	keys      string // of gpg; empty for those of the user
	artifacts []artifact
}

// An artifact is a file in dist, as goreleaser lists it.
type artifact struct {
	Name, Path, Goos, Goarch, Type string
	Extra                          struct{ ID, Format string }
}

// build builds the snapshot of the last commit in two clones, compares the checksums of all
// files, and moves those of the second to dist.
func build(ctx context.Context, w io.Writer, temp string, single bool) (*snapshot, error) {
	s := &snapshot{temp: temp}
	env, err := s.signingKey(ctx)
	if err != nil {
		return nil, err
	}
	commit, err := output(ctx, "git", "rev-parse", "HEAD") // a commit may follow during the builds
	if err != nil {
		return nil, err
	}
	var sums [2]string
	for i := range sums {
		s.tree = filepath.Join(temp, fmt.Sprint("tree-", i+1))
		if sums[i], err = s.goreleaser(ctx, w, env, strings.TrimSpace(commit), single); err != nil {
			return nil, err
		}
	}
	if line := firstDifference(sums[0], sums[1]); line != "" {
		return nil, fmt.Errorf("two builds differ: %s", line)
	}
	fmt.Fprintf(w, "ok  two builds of %d files are identical\n", strings.Count(sums[0], "\n"))
	if err := os.RemoveAll("dist"); err != nil {
		return nil, err
	}
	if err := os.Rename(filepath.Join(s.tree, "dist"), "dist"); err != nil {
		return nil, err
	}
	text, err := os.ReadFile("dist/artifacts.json")
	if err != nil {
		return nil, err
	}
	return s, json.Unmarshal(text, &s.artifacts)
}

// goreleaser clones the tree to s.tree, builds a commit there, and returns the checksums.
func (s *snapshot) goreleaser(ctx context.Context, w io.Writer, env []string, commit string, single bool) (string, error) {
	if _, err := output(ctx, "git", "clone", "-q", "--shared", ".", s.tree); err != nil {
		return "", err
	}
	if _, err := output(ctx, "git", "-C", s.tree, "checkout", "-q", "--detach", commit); err != nil {
		return "", err
	}
	config := filepath.Join(s.tree, ".goreleaser.yaml")
	if single {
		text, err := os.ReadFile(config)
		if err != nil {
			return "", err
		}
		config = filepath.Join(s.temp, "goreleaser.yaml")
		if err := os.WriteFile(config, singleTarget.ReplaceAll(text, []byte("${1}[linux_"+runtime.GOARCH+"]")), 0o600); err != nil {
			return "", err
		}
	}
	c := exec.CommandContext(ctx, "goreleaser", "release", "--snapshot", "--skip=docker", "-f", config)
	c.Dir = s.tree
	c.Env = append(os.Environ(), env...)
	c.Stdout, c.Stderr = w, w
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("goreleaser: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(s.tree, "dist/checksums.txt"))
	return string(text), err
}

// singleTarget matches the list of targets in .goreleaser.yaml.
var singleTarget = regexp.MustCompile(`(?m)^(    targets: )\[.*\]$`)

// signingKey returns the environment of goreleaser. Without GPG_FINGERPRINT it makes a key.
func (s *snapshot) signingKey(ctx context.Context) ([]string, error) {
	if os.Getenv("GPG_FINGERPRINT") != "" {
		return nil, nil
	}
	s.keys = filepath.Join(s.temp, "gnupg")
	if err := os.Mkdir(s.keys, 0o700); err != nil {
		return nil, err
	}
	const user = "snapshot of weir"
	_, err := output(ctx, "gpg", "--homedir", s.keys, "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", user, "ed25519", "sign", "1d")
	return []string{"GNUPGHOME=" + s.keys, "GPG_FINGERPRINT=" + user}, err
}

// firstDifference returns the first line of a that b does not have, or the reverse.
func firstDifference(a, b string) string {
	for _, pair := range [][2]string{{a, b}, {b, a}} {
		for line := range strings.Lines(pair[0]) {
			if !strings.Contains(pair[1], line) {
				return strings.TrimSpace(line)
			}
		}
	}
	return ""
}
