// Packages builds the archives, packages and images of .goreleaser.yaml as a snapshot of the
// last commit, in two clones, and checks them.
//
//	packages [-single]
//	packages -stage
//
// It needs goreleaser, cyclonedx-gomod, gpg, dpkg-deb, rpm, systemd-analyze, buildah and bwrap.
// Signatures are by the key GPG_FINGERPRINT, or by one that ends with the program.
//
// With -stage it only writes what goreleaser adds to the programs to .bin/packages: completions,
// man pages, and the certificates and a link of the images.
package main

import (
	"archive/tar"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

// staged is the directory of the files that goreleaser adds to the programs.
const staged = ".bin/packages"

// linkArchive is the staged archive with /bin/ratelimit.
const linkArchive = "ratelimit.tar"

// programs are the programs, each with the directory of its package.
var programs = []struct{ name, dir string }{{"weir", "./cmd/weir"}, {"flashsale", "./flashsale"}}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "packages:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, w io.Writer) error {
	flags := flag.NewFlagSet("packages", flag.ContinueOnError)
	onlyStage := flags.Bool("stage", false, "only write the files that goreleaser adds to the programs")
	single := flags.Bool("single", false, "only build for this system")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *onlyStage {
		return stage(ctx)
	}
	if err := os.MkdirAll(".bin", 0o755); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(".bin", "snapshot-*") // beside dist, so that files can be moved there
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if temp, err = filepath.Abs(temp); err != nil {
		return err
	}
	s, err := build(ctx, w, temp, *single)
	if err != nil {
		return err
	}
	return s.check(ctx, w)
}

// stage writes completions and man pages, as the programs print them, and certificates.
func stage(ctx context.Context) error {
	if err := os.RemoveAll(staged); err != nil {
		return err
	}
	for _, p := range programs {
		dir := filepath.Join(staged, p.name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		file := filepath.Join(".bin", p.name)
		if _, err := output(ctx, "go", "build", "-o", file, p.dir); err != nil {
			return err
		}
		run := func(args ...string) (string, error) { return output(ctx, "./"+file, args...) }
		page, err := manPage(p.name, run)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, p.name+".1"), []byte(page), 0o644); err != nil {
			return err
		}
		for _, shell := range []string{"bash", "zsh", "fish"} {
			text, err := run("completion", shell)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, p.name+"."+shell), []byte(text), 0o644); err != nil {
				return err
			}
		}
	}
	if err := stageLink(); err != nil {
		return err
	}
	return stageCertificates()
}

// stageLink writes an archive with the link /bin/ratelimit to the program weir, which a Dockerfile
// without a shell cannot make.
func stageLink() error {
	f, err := os.Create(filepath.Join(staged, linkArchive))
	if err != nil {
		return err
	}
	defer f.Close()
	w := tar.NewWriter(f)
	for _, h := range []*tar.Header{
		{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o755},
		{Typeflag: tar.TypeSymlink, Name: "bin/ratelimit", Linkname: "../usr/bin/weir", Mode: 0o777},
	} {
		if err := w.WriteHeader(h); err != nil {
			return err
		}
	}
	return w.Close()
}

// stageCertificates copies the certificates of this system.
func stageCertificates() error {
	bundles := []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"}
	for _, bundle := range bundles {
		if text, err := os.ReadFile(bundle); err == nil {
			return os.WriteFile(filepath.Join(staged, "ca-certificates.crt"), text, 0o644)
		}
	}
	return fmt.Errorf("no certificates of authorities in %v", bundles)
}

// output returns the standard output of a command.
func output(ctx context.Context, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	var stderr strings.Builder
	c.Stderr = &stderr
	text, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", strings.Join(c.Args, " "), err, text, stderr.String())
	}
	return string(text), nil
}
