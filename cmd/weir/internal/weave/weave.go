package weave

import (
	"context"
	"fmt"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A Config sets where weaving happens. Its zero value uses the directory of this
// process, and no input and output.
type Config struct {
	Dir            string // where the go command runs; that of this process if empty
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// Cache is the directory of woven files; weir/weave in the user's cache directory
	// if empty, or a temporary one if that cannot be created.
	Cache string

	// Self is the path of the program that go runs for its tools and as checker of go
	// vet; this one if empty.
	Self string
}

// Run runs the go command with args, woven if it compiles packages, and returns its
// exit code. An error describes an invalid directive, or why weaving failed. Then the
// go command has not run.
func Run(ctx context.Context, c Config, args []string) (int, error) {
	var err error
	if c.Dir == "" {
		if c.Dir, err = os.Getwd(); err != nil {
			return 1, fmt.Errorf("weave: %w", err)
		}
	}
	if len(args) > 0 && args[0] == toolVerb {
		line, err := tool(args[1:])
		if err != nil {
			return 1, err
		}
		return c.child(ctx, "", c.Stdout, c.Stderr, line...)
	}
	if c.Self == "" {
		if c.Self, err = self(); err != nil {
			return 1, err
		}
	}
	cmd, err := parse(args)
	if err != nil {
		return 2, err
	}
	dir := c.Dir
	if cmd.dir != "" {
		dir = absolute(cmd.dir, c.Dir)
	}
	if !cmd.compiles() {
		return c.child(ctx, dir, c.Stdout, c.Stderr, append([]string{"go"}, cmd.line(nil)...)...)
	}
	store, err := openCache(c.Cache)
	if err != nil {
		return 1, err
	}
	defer store.close()
	return c.woven(ctx, cmd, dir, store)
}

// self returns the path of this program.
func self() (string, error) {
	if path, err := exec.LookPath(os.Args[0]); err == nil {
		if path, err = filepath.Abs(path); err == nil {
			return path, nil
		}
	}
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("weave: %w", err)
	}
	return path, nil
}

// compiles reports whether the command compiles packages of a main module.
func (c *command) compiles() bool {
	if !verbs[c.verb] {
		return false
	}
	if _, ok := c.value("m"); ok && c.verb == "list" {
		return false
	}
	for _, p := range c.packages {
		if strings.Contains(p, "@") {
			return false
		}
	}
	return true
}

// line returns the command line of the go command, with the given flags first.
func (c *command) line(flags []string, added ...string) []string {
	if c.verb == "" {
		return nil
	}
	var out []string
	for _, list := range [][]string{{c.verb}, flags, c.flags, c.packages, added, c.rest} {
		out = append(out, list...)
	}
	return out
}

// woven runs a command that compiles packages.
func (c *Config) woven(ctx context.Context, cmd command, dir string, store *cache) (int, error) {
	plain := func() (int, error) {
		return c.child(ctx, dir, c.Stdout, c.Stderr, append([]string{"go"}, cmd.line(nil)...)...)
	}
	env, err := goEnv(ctx, dir)
	if err != nil {
		return plain() // go says why
	}
	goflags, err := split(env["GOFLAGS"])
	if err != nil {
		return plain()
	}
	users, ok := cmd.value("overlay")
	if !ok {
		users = last(goflags, "overlay")
	}
	if users != "" {
		users = absolute(users, dir)
	}
	l := &loader{users: users, ctx: ctx, fset: token.NewFileSet(), command: cmd, dir: dir, env: env, self: c.Self}
	l.trimmed = cmd.trims(goflags)
	if l.overlay, err = readOverlay(users, dir); err != nil {
		return 1, err
	}
	w, trouble, err := l.weave(store)
	switch {
	case err != nil:
		return 1, err
	case trouble != nil:
		return c.unwoven(ctx, &cmd, dir, trouble, w, l, store, goflags)
	case len(w.Replace) == 0 && cmd.verb != "vet":
		return plain()
	}
	code, check, err := c.overlaid(ctx, &cmd, dir, w, l, store, goflags)
	if err != nil || cmd.verb != "vet" {
		return code, err
	}
	also, err := c.child(ctx, dir, c.Stdout, c.Stderr, check...)
	return max(code, also), err
}

// weave creates the overlay, or reads it from the cache. trouble reports packages that the
// go command will reject too, with more detail.
func (l *loader) weave(store *cache) (w woven, trouble, err error) {
	r, err := l.reach()
	if err != nil {
		return w, fmt.Errorf("weave: %w", err), nil
	}
	if len(r.packages)+len(r.files) == 0 {
		return w, nil, nil
	}
	if w, ok := store.recall(r.key); ok {
		return w, nil, nil
	}
	pkgs, err := l.typed(r)
	if err != nil {
		return w, fmt.Errorf("weave: %w", err), nil
	}
	v := &weaver{loader: l, cache: store}
	if err := v.weave(pkgs); err != nil {
		return w, nil, err
	}
	if len(v.faults) > 0 && (v.forged || l.command.verb != "vet") { // whose checker says so
		return w, nil, faulty(v.faults)
	}
	if len(v.broken) > 0 {
		return v.woven, fmt.Errorf("weave: no types of %s, whose functions would not be limited", strings.Join(v.broken, ", ")), nil
	}
	if len(v.faults) == 0 {
		err = store.remember(r.key, v.woven)
	}
	return v.woven, nil, err
}

// Faults lists invalid directives: file:line:column and the accepted values.
type Faults []string

func (f Faults) Error() string { return strings.Join(f, "\n") }

func faulty(faults []fault) (all Faults) {
	for _, f := range faults {
		all = append(all, fmt.Sprintf("%s: %s", f.at, f.message))
	}
	return all
}

// overlaid runs the command with an overlay. With the same overlay, check is the
// command that finds directives without a limit.
func (c *Config) overlaid(ctx context.Context, cmd *command, dir string, w woven, l *loader, store *cache, goflags []string) (code int, check []string, err error) {
	file, err := store.keep(l.overlay.with(w.Replace, w.Added).json(), ".json")
	if err != nil {
		return 1, nil, err
	}
	flags := []string{"-overlay=" + file}
	own := *cmd
	own.flags = cmd.without(cmd.flags, "overlay")
	if own.verb != "run" {
		own.rest = cmd.without(cmd.rest, "overlay")
	}
	if own.covers(goflags) {
		users, ok := own.value("toolexec")
		if !ok {
			users = last(goflags, "toolexec")
		}
		own.flags = own.without(own.flags, "toolexec")
		if own.verb != "run" {
			own.rest = own.without(own.rest, "toolexec")
		}
		flags = append(flags, "-toolexec="+toolexec(c.Self, file, users))
	}
	var added []string
	if len(cmd.packages) > 0 && isFile(cmd.packages[0]) {
		at := filepath.Dir(absolute(cmd.packages[0], dir))
		for _, path := range w.Added {
			if filepath.Dir(path) == at && (!isTest(path) || cmd.verb == "test" || cmd.verb == "vet") {
				added = append(added, filepath.Join(filepath.Dir(cmd.packages[0]), filepath.Base(path)))
			}
		}
	}
	check = slices.Concat([]string{"go", "vet", "-vettool=" + c.Self}, flags, own.only(loading, vetting), own.packages, added)
	code, err = c.child(ctx, dir, c.Stdout, c.Stderr, append([]string{"go"}, own.line(flags, added...)...)...)
	return code, check, err
}

// unwoven runs a command with packages that do not compile, so that go reports why. It
// does not run a command that could succeed, since its result would have no limits.
func (c *Config) unwoven(ctx context.Context, cmd *command, dir string, trouble error, w woven, l *loader, store *cache, goflags []string) (int, error) {
	if cmd.verb == "run" || cmd.verb == "install" || cmd.verb == "build" {
		flags := cmd.without(cmd.without(cmd.flags, "o"), "exec")
		try := slices.Concat([]string{"go", "build", "-o", os.DevNull}, flags, cmd.packages)
		code, err := c.child(ctx, dir, c.Stderr, c.Stderr, try...)
		if err == nil && code == 0 {
			err = trouble
		}
		return max(code, 1), err
	}
	code, _, err := c.overlaid(ctx, cmd, dir, w, l, store, goflags)
	if err == nil && code == 0 {
		return 1, trouble
	}
	return code, err
}

// last returns the value of the last flag of a name in GOFLAGS.
func last(goflags []string, flag string) string {
	for _, f := range slices.Backward(goflags) {
		if name(f) == flag {
			_, v, _ := strings.Cut(f, "=")
			return v
		}
	}
	return ""
}
