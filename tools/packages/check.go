package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

const (
	maxSize     = 40_000_000             // of weir, in bytes
	maxStart    = 300 * time.Millisecond // from the start of weir to its first answer
	maxExposure = 2.0                    // of a unit, by systemd-analyze security
	imageUser   = "65532:65532"
)

// check checks what was built.
func (s *snapshot) check(ctx context.Context, w io.Writer) error {
	for _, a := range s.artifacts {
		if err := s.checkArtifact(ctx, w, a); err != nil {
			return fmt.Errorf("%s: %w", a.Name, err)
		}
	}
	verify := []string{"--verify", "dist/checksums.txt.asc", "dist/checksums.txt"}
	if s.keys != "" {
		verify = append([]string{"--homedir", s.keys}, verify...)
	}
	if _, err := output(ctx, "gpg", verify...); err != nil {
		return err
	}
	fmt.Fprintln(w, "ok  checksums.txt is signed")
	for _, p := range programs {
		if err := s.checkImage(ctx, w, p.name); err != nil {
			return fmt.Errorf("image %s: %w", p.name, err)
		}
	}
	return nil
}

func (s *snapshot) checkArtifact(ctx context.Context, w io.Writer, a artifact) error {
	native := a.Goos == runtime.GOOS && a.Goarch == runtime.GOARCH
	switch {
	case a.Type == "Binary":
		if err := checkSize(w, a); err != nil || !native {
			return err
		}
		return checkProgram(ctx, w, a.Extra.ID, a.Path)
	case a.Type == "SBOM":
		return checkSBOM(w, a)
	case a.Extra.Format == "deb" && native:
		return s.checkDeb(ctx, w, a)
	case a.Extra.Format == "rpm" && native:
		return checkRPM(ctx, w, a)
	}
	return nil
}

func checkSize(w io.Writer, a artifact) error {
	info, err := os.Stat(a.Path)
	if err != nil {
		return err
	}
	if a.Extra.ID == "weir" && info.Size() > maxSize {
		return fmt.Errorf("got %d bytes for %s/%s, want at most %d", info.Size(), a.Goos, a.Goarch, maxSize)
	}
	fmt.Fprintf(w, "ok  %s for %s/%s: %.1f MB\n", a.Name, a.Goos, a.Goarch, float64(info.Size())/1e6)
	return nil
}

// checkProgram runs the version of a program and, of weir, the time to its first answer. A busy
// machine delays a start, so the best of five counts.
func checkProgram(ctx context.Context, w io.Writer, id, path string) error {
	version, err := output(ctx, "./"+path, "version")
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "ok  %s\n", strings.TrimSpace(version))
	if id != "weir" {
		return nil
	}
	best := time.Hour
	for range 5 {
		took, err := firstAnswer(ctx, "./"+path)
		if err != nil {
			return err
		}
		best = min(best, took)
	}
	if best > maxStart {
		return fmt.Errorf("got the first answer after %v, want at most %v", best, maxStart)
	}
	fmt.Fprintf(w, "ok  %s: first answer %v after the start\n", id, best.Round(time.Millisecond))
	return nil
}

// firstAnswer returns the time from the start of weir serve, by the command, to its first answer.
func firstAnswer(ctx context.Context, command ...string) (time.Duration, error) {
	addr, err := freeAddress()
	if err != nil {
		return 0, err
	}
	args := append(command[:len(command):len(command)], "serve", "--listen-http", addr)
	for _, other := range []string{"gateway", "grpc", "resp", "admin"} {
		args = append(args, "--listen-"+other, "off")
	}
	return untilReady(ctx, "http://"+addr+"/readyz", nil, args...)
}

// freeAddress returns an address on loopback on which nothing listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// untilReady returns the time from the start of a command to the first answer 200 of url, and ends
// the command.
func untilReady(ctx context.Context, url string, env []string, command ...string) (time.Duration, error) {
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Env = append(os.Environ(), env...)
	var log strings.Builder
	c.Stdout, c.Stderr = &log, &log
	start := time.Now()
	if err := c.Start(); err != nil {
		return 0, err
	}
	defer c.Wait()
	defer stop()
	for ctx.Err() == nil {
		answer, err := http.Get(url)
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return time.Since(start), nil
			}
		}
		time.Sleep(time.Millisecond)
	}
	stop()
	c.Wait()
	return 0, fmt.Errorf("%s: no answer\n%s", strings.Join(c.Args, " "), log.String())
}

// checkSBOM checks that a bill of materials names the modules of its program.
func checkSBOM(w io.Writer, a artifact) error {
	text, err := os.ReadFile(a.Path)
	if err != nil {
		return err
	}
	var bill struct {
		BOMFormat  string
		Components []struct{ Name, Version, Purl string }
	}
	if err := json.Unmarshal(text, &bill); err != nil {
		return err
	}
	for _, c := range bill.Components {
		if bill.BOMFormat == "CycloneDX" && c.Name == "github.com/redis/rueidis" && c.Version != "" && c.Purl != "" {
			fmt.Fprintf(w, "ok  %s: %d components\n", a.Name, len(bill.Components))
			return nil
		}
	}
	return fmt.Errorf("got format %q and %d components, want those of the program", bill.BOMFormat, len(bill.Components))
}

// checkDeb unpacks a package, runs its program with its policies, and checks its unit.
func (s *snapshot) checkDeb(ctx context.Context, w io.Writer, a artifact) error {
	root := filepath.Join(s.temp, a.Name)
	if _, err := output(ctx, "dpkg-deb", "-x", a.Path, root); err != nil {
		return err
	}
	program := filepath.Join(root, "usr/bin", a.Extra.ID)
	commands := [][]string{{program, "version"}}
	if a.Extra.ID == "weir" {
		commands = append(commands, []string{program, "check", filepath.Join(root, "etc/weir/weir.yaml")})
	}
	unit := filepath.Join(root, "usr/lib/systemd/system", a.Extra.ID+".service")
	commands = append(commands,
		[]string{"man", "--warnings", "-E", "UTF-8", "-l", filepath.Join(root, "usr/share/man/man1", a.Extra.ID+".1")},
		[]string{"bash", "-n", filepath.Join(root, "usr/share/bash-completion/completions", a.Extra.ID)},
		[]string{"systemd-analyze", "security", "--offline=true", "--no-pager", fmt.Sprintf("--threshold=%.0f", 10*maxExposure), unit})
	for _, c := range commands {
		if _, err := output(ctx, c[0], c[1:]...); err != nil {
			return err
		}
	}
	if err := verifyUnit(ctx, root, unit); err != nil {
		return err
	}
	fmt.Fprintf(w, "ok  %s: the program runs, the unit has an exposure of at most %.1f\n", a.Name, maxExposure)
	return nil
}

// verifyUnit verifies a unit in the unpacked root of its package, together with what other
// packages install there: the targets of systemd and kill.
func verifyUnit(ctx context.Context, root, unit string) error {
	for name, text := range map[string]string{"usr/lib/systemd/system/sysinit.target": "[Unit]\n", "bin/kill": "#!/bin/sh\n"} {
		if err := writeFile(filepath.Join(root, name), []byte(text)); err != nil {
			return err
		}
	}
	_, err := output(ctx, "systemd-analyze", "verify", "--man=no", "--root="+root, filepath.Base(unit))
	return err
}

// writeFile writes an executable file and creates its directory.
func writeFile(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o755)
}

// checkRPM checks the list of files of a package and its digests.
func checkRPM(ctx context.Context, w io.Writer, a artifact) error {
	if _, err := output(ctx, "rpm", "--checksig", "--nosignature", a.Path); err != nil {
		return err
	}
	list, err := output(ctx, "rpm", "-qpl", a.Path)
	if err != nil {
		return err
	}
	files := strings.Fields(list)
	for _, want := range []string{"/usr/bin/" + a.Extra.ID, "/usr/lib/systemd/system/" + a.Extra.ID + ".service", "/etc/" + a.Extra.ID + "/" + a.Extra.ID + ".env"} {
		if !slices.Contains(files, want) {
			return fmt.Errorf("no file %s", want)
		}
	}
	fmt.Fprintf(w, "ok  %s: %d files\n", a.Name, len(files))
	return nil
}
