package weave

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/floodweir/weir/cmd/weir/internal/directive"
)

// adhoc is the import path of a package that is given as files.
const adhoc = "command-line-arguments"

// A loader reads the packages of one command.
type loader struct {
	ctx     context.Context
	fset    *token.FileSet
	command command
	dir     string
	users   string            // the path of the user's overlay; "" if there is none
	overlay overlay           // what is in it
	env     map[string]string // of go
	self    string
	trimmed bool // the command builds a program with -trimpath
}

// goEnv returns the relevant settings of the go command.
func goEnv(ctx context.Context, dir string) (map[string]string, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "-json", "GOVERSION", "GOFLAGS", "GOOS", "GOARCH", "CGO_ENABLED", "GOEXPERIMENT", "GOWORK", "GOMOD")
	cmd.Dir = dir
	out, err := cmd.Output()
	env := map[string]string{}
	if err == nil {
		err = json.Unmarshal(out, &env)
	}
	return env, err
}

func (l *loader) load(mode packages.LoadMode, patterns ...string) ([]*packages.Package, error) {
	contents, err := l.overlay.contents()
	if err != nil {
		return nil, fmt.Errorf("-overlay: %w", err)
	}
	flags := append(l.command.only(loading), "-cover=false") // in GOFLAGS it has files read that are instrumented
	if l.users != "" {                                       // whether by flag or in GOFLAGS, before which go/packages puts its own
		flags = append(flags, "-overlay="+l.users)
	}
	return packages.Load(&packages.Config{
		Mode:       mode,
		Context:    l.ctx,
		Fset:       l.fset,
		Dir:        l.dir,
		BuildFlags: flags,
		Tests:      l.tests(),
		Overlay:    contents,
	}, patterns...)
}

// tests reports whether the command compiles tests too.
func (l *loader) tests() bool {
	v, ok := l.command.value("test")
	return l.command.verb == "test" || l.command.verb == "vet" || l.command.verb == "list" && ok && v != "false"
}

// A reach is the packages of a command that may have directives.
type reach struct {
	packages []string // those with directives
	files    []string // the package that is given as files, if it has directives
	key      string   // of all that weaving them depends on
}

// reach lists the packages of the command and finds those of the main modules that have
// directives.
func (l *loader) reach() (reach, error) {
	patterns := l.command.packages
	if len(patterns) == 0 {
		patterns = []string{"."}
	}
	roots, err := l.load(packages.NeedName|packages.NeedFiles|packages.NeedModule|packages.NeedImports|packages.NeedDeps|packages.NeedForTest, patterns...)
	if err != nil {
		return reach{}, err
	}
	var r reach
	var hits []*packages.Package
	sources := map[string][]byte{}
	var unread error
	packages.Visit(roots, nil, func(p *packages.Package) {
		if !changing(p) || strings.HasSuffix(p.PkgPath, ".test") && p.Name == "main" {
			return
		}
		found := false
		for _, file := range p.GoFiles {
			data, ok := sources[file]
			if !ok {
				if data, err = l.overlay.read(file); err != nil && unread == nil {
					unread = err
				}
				sources[file] = data
			}
			found = found || directive.Mentioned(data)
		}
		if found && main(p) {
			hits = append(hits, p)
			if p.PkgPath == adhoc {
				r.files = l.command.packages
			} else {
				r.packages = append(r.packages, base(p))
			}
		}
	})
	if unread != nil {
		return reach{}, unread
	}
	slices.Sort(r.packages)
	r.packages = slices.Compact(r.packages)
	if len(hits) > 0 {
		r.key = l.key(hits, sources)
	}
	return r, nil
}

// base returns the import path of a package, or of the package that it tests.
func base(p *packages.Package) string {
	if p.ForTest != "" && p.PkgPath == p.ForTest+"_test" {
		return p.ForTest
	}
	return p.PkgPath
}

// main reports whether a package belongs to a main module.
func main(p *packages.Package) bool {
	return p.PkgPath == adhoc || p.Module != nil && p.Module.Main
}

// changing reports whether the files of a package may change while its version stays.
func changing(p *packages.Package) bool {
	m := p.Module
	if m != nil && m.Replace != nil {
		m = m.Replace
	}
	return p.PkgPath == adhoc || m != nil && (m.Main || m.Version == "")
}

// key returns a hash of everything that weaving the packages depends on: the files that
// they import, directly or not, and the settings that select them.
func (l *loader) key(hits []*packages.Package, sources map[string][]byte) string {
	h := sha256.New()
	say := func(words ...string) {
		for _, w := range words {
			fmt.Fprintf(h, "%d %s\n", len(w), w)
		}
	}
	if info, err := os.Stat(l.self); err == nil {
		say(l.self, info.ModTime().UTC().String(), fmt.Sprint(info.Size()))
	}
	for _, k := range []string{"GOVERSION", "GOFLAGS", "GOOS", "GOARCH", "CGO_ENABLED", "GOEXPERIMENT", "GOWORK", "GOMOD"} {
		say(l.env[k])
	}
	say(l.dir, fmt.Sprint(l.tests(), l.trimmed))
	say(l.command.only(loading)...)
	say(string(l.overlay.json()))
	seen := map[string][]string{}
	packages.Visit(hits, nil, func(p *packages.Package) {
		lines := []string{p.ID, p.Name}
		switch {
		case p.Module == nil && p.PkgPath != adhoc:
			return // the standard library is of the version of go
		case !changing(p):
			m := p.Module
			if m.Replace != nil {
				m = m.Replace
			}
			lines = append(lines, m.Path, m.Version)
		}
		for _, file := range p.GoFiles {
			lines = append(lines, file, string(sources[file]))
		}
		seen[p.ID] = lines
	})
	var ids []string
	for id := range seen {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		say(seen[id]...)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// typed loads the packages with directives and their types.
func (l *loader) typed(r reach) (all []*packages.Package, err error) {
	for _, patterns := range [][]string{r.packages, r.files} {
		if len(patterns) == 0 {
			continue
		}
		pkgs, err := l.load(packages.NeedName|packages.NeedFiles|packages.NeedCompiledGoFiles|packages.NeedSyntax|packages.NeedTypes|
			packages.NeedTypesInfo|packages.NeedTypesSizes|packages.NeedImports|packages.NeedModule|packages.NeedForTest, patterns...)
		if err != nil {
			return nil, err
		}
		all = append(all, pkgs...)
	}
	return all, nil
}

// requires returns an error if a package cannot import package guard.
func (l *loader) requires(p *packages.Package) error {
	dir := l.dir
	if len(p.GoFiles) > 0 {
		dir = filepath.Dir(p.GoFiles[0])
	}
	args := append([]string{"list", "-e", "-f", "{{if .Error}}{{.Error}}{{end}}"}, l.command.only(words("mod modfile"))...)
	cmd := exec.CommandContext(l.ctx, "go", append(args, guardPath)...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, io.Discard
	if err := cmd.Run(); err == nil && strings.TrimSpace(out.String()) == "" {
		return nil
	}
	module := p.PkgPath
	if p.Module != nil {
		module = p.Module.Path
	}
	help := "run: go get github.com/floodweir/weir"
	if strings.Contains(out.String(), "vendor") {
		help = "import _ \"" + guardPath + "\" somewhere in the module and run: go mod vendor"
	}
	return fmt.Errorf("weave: module %s has //weir:limit directives and does not provide %s, which limits them; %s", module, guardPath, help)
}
