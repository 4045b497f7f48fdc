package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A user is a machine with an empty module cache, which obtains modules from the proxy.
type user struct {
	release *release
	temp    string
	env     []string
	server  *http.Server
}

// newUser starts the proxy. After it, the go command asks the module cache of this machine if
// cached is set, and then the proxies of this machine.
func (r *release) newUser(ctx context.Context, cached bool) (*user, error) {
	settings, err := output(ctx, r.dir, nil, "go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return nil, err
	}
	cache, others, _ := strings.Cut(settings, "\n")
	if cached {
		others = "file://" + filepath.ToSlash(cache) + "/cache/download," + others
	}
	temp, err := os.MkdirTemp("", "weir-user-*")
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	u := &user{release: r, temp: temp, server: &http.Server{Handler: r}}
	go u.server.Serve(l)
	u.env = []string{
		"GOPROXY=http://" + l.Addr().String() + "," + others,
		"GONOSUMDB=" + home, // the checksum database does not know the tags yet
		"GOPRIVATE=", "GONOPROXY=", "GOWORK=off", "GOENV=off", "GOTOOLCHAIN=local",
		"GOFLAGS=-modcacherw -trimpath",
		"GOMODCACHE=" + filepath.Join(temp, "mod"),
		"GOBIN=" + filepath.Join(temp, "bin"),
	}
	return u, nil
}

func (u *user) close() {
	u.server.Close()
	os.RemoveAll(u.temp)
}

// in runs the go command in a new directory that only contains a go.mod file.
func (u *user) in(ctx context.Context, env []string, commands ...[]string) (string, error) {
	dir, err := os.MkdirTemp(u.temp, "app-*")
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/app\n\ngo 1.26.0\n"), 0o644); err != nil {
		return "", err
	}
	out := ""
	for _, args := range commands {
		if out, err = output(ctx, dir, slices.Concat(u.env, env), "go", args...); err != nil {
			return "", err
		}
	}
	return out, nil
}

// check obtains each module and each program as users do, and prints a line for each.
func (u *user) check(ctx context.Context, w io.Writer) error {
	if err := u.release.workspace(ctx); err != nil {
		return err
	}
	for _, m := range u.release.modules {
		if err := u.get(ctx, w, m); err != nil {
			return err
		}
	}
	for _, m := range programs {
		if err := u.install(ctx, w, m); err != nil {
			return err
		}
	}
	if err := u.compareWithGit(ctx); err != nil {
		return err
	}
	return u.build(ctx, w)
}

// workspace returns an error if the programs do not build in a checkout of the tag without a
// proxy, as the packages are built before the tags are published.
func (r *release) workspace(ctx context.Context) error {
	_, err := output(ctx, r.dir, []string{"GOPROXY=off", "GOWORK="}, "go", "list", "-deps", "./"+programs[0], "./"+programs[1])
	return err
}

// get adds a module to an empty program and compiles all its packages. The go.mod of the module
// has to be tidy too.
func (u *user) get(ctx context.Context, w io.Writer, m string) error {
	start := time.Now()
	p := modulePath(m)
	query := p + "@" + u.release.version
	if _, err := u.in(ctx, nil, []string{"get", query}, []string{"get", p + "/..."}, []string{"build", p + "/..."}); err != nil {
		return fmt.Errorf("go get %s: %w", query, err)
	}
	if _, err := output(ctx, filepath.Join(u.release.dir, m), u.env, "go", "mod", "tidy", "-diff"); err != nil {
		return fmt.Errorf("%s: go.mod and go.sum of the tag are not tidy: %w", p, err)
	}
	fmt.Fprintf(w, "ok  go get %-56s %5.1f s\n", query, time.Since(start).Seconds())
	return nil
}

// install installs a program and runs it once.
func (u *user) install(ctx context.Context, w io.Writer, m string) error {
	start := time.Now()
	query := modulePath(m) + "@" + u.release.version
	if _, err := output(ctx, u.temp, append(u.env, "CGO_ENABLED=0"), "go", "install", query); err != nil {
		return fmt.Errorf("go install %s: %w", query, err)
	}
	program := filepath.Base(m)
	printed, err := output(ctx, u.temp, nil, filepath.Join(u.temp, "bin", program), "version")
	if err != nil {
		return err
	}
	if !strings.Contains(printed, u.release.version) {
		return fmt.Errorf("%s version: got %q, want %s", program, printed, u.release.version)
	}
	fmt.Fprintf(w, "ok  go install %-52s %5.1f s\n", query, time.Since(start).Seconds())
	return nil
}

// compareWithGit returns an error if the go command builds other archives from the repository
// than the proxy does. Then the go.sum files in the tags would be wrong.
func (u *user) compareWithGit(ctx context.Context) error {
	r := u.release
	env := []string{
		"GOPROXY=direct", "GONOSUMDB=*", "GOMODCACHE=" + filepath.Join(u.temp, "direct"),
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://" + r.dir + ".insteadOf", "GIT_CONFIG_VALUE_0=https://" + home,
		"GIT_ALLOW_PROTOCOL=file",
	}
	for _, m := range r.modules {
		query := modulePath(m) + "@" + r.version
		var sums [2]string
		for i, env := range [][]string{nil, env} {
			out, err := u.in(ctx, env, []string{"mod", "download", "-json", query})
			if err != nil {
				return err
			}
			for line := range strings.Lines(out) {
				if strings.Contains(line, `"Sum"`) || strings.Contains(line, `"GoModSum"`) {
					sums[i] += strings.TrimRight(line, ",\n") + "\n"
				}
			}
		}
		if sums[0] != sums[1] || sums[0] == "" {
			return fmt.Errorf("%s: the sums of the proxy and of the repository differ:\n%s%s", query, sums[0], sums[1])
		}
	}
	return nil
}
