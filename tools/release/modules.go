package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// home is the path of the root module, which all others begin with.
const home = "github.com/floodweir/weir"

// unpublished are the modules that no user imports: they are never tagged.
var unpublished = []string{"benchmarks", "deploy", "e2e", "examples", "tools"}

// outside are published modules that are not in the workspace, whose versions they would change.
var outside = []string{"contrib/caddy", "contrib/natsledger"}

// programs are the directories of the modules that users install.
var programs = []string{"cmd/weir", "flashsale"}

// modules returns the directories of the published modules of the tree, each after those that
// it requires.
func modules(root string) ([]string, error) {
	work, err := readWorkspace(root)
	if err != nil {
		return nil, err
	}
	var sorted []string
	state := map[string]bool{} // false while the requirements of a directory are visited
	var visit func(dir string) error
	visit = func(dir string) error {
		if done, seen := state[dir]; seen {
			if !done {
				return fmt.Errorf("%s requires itself", modulePath(dir))
			}
			return nil
		}
		state[dir] = false
		f, err := readModFile(root, dir)
		if err != nil {
			return err
		}
		for _, r := range f.Require {
			required, ok := moduleDir(r.Mod.Path)
			if !ok {
				continue
			}
			if slices.Contains(unpublished, required) {
				return fmt.Errorf("%s requires %s, which is not published", f.Module.Mod.Path, r.Mod.Path)
			}
			if err := visit(required); err != nil {
				return err
			}
		}
		state[dir] = true
		sorted = append(sorted, dir)
		return nil
	}
	dirs := slices.Clone(outside)
	for _, use := range work.Use {
		dirs = append(dirs, path.Clean(use.Path))
	}
	slices.Sort(dirs)
	for _, dir := range dirs {
		if slices.Contains(unpublished, dir) {
			continue
		}
		if err := visit(dir); err != nil {
			return nil, err
		}
	}
	return sorted, nil
}

// modulePath returns the path of the module in dir.
func modulePath(dir string) string { return path.Join(home, dir) }

// moduleDir returns the directory of a module of the tree.
func moduleDir(modulePath string) (dir string, ok bool) {
	if modulePath == home {
		return ".", true
	}
	return strings.CutPrefix(modulePath, home+"/")
}

// tag returns the name of the tag of a version of the module in dir.
func tag(dir, version string) string { return path.Join(dir, version) }

func readModFile(root, dir string) (*modfile.File, error) {
	name := filepath.Join(root, dir, "go.mod")
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	f, err := modfile.Parse(name, data, nil)
	if err != nil {
		return nil, err
	}
	if want := modulePath(dir); f.Module == nil || f.Module.Mod.Path != want {
		return nil, fmt.Errorf("%s: want module %s", name, want)
	}
	return f, nil
}

// setVersion writes the go.mod and go.sum of the module in dir: it requires the other modules of
// the tree in a version, without replace directives. sums has the lines of go.sum of each module.
func setVersion(root, dir, version string, sums map[string][]sumLine) error {
	f, err := readModFile(root, dir)
	if err != nil {
		return err
	}
	for _, r := range slices.Clone(f.Replace) {
		if _, ok := moduleDir(r.Old.Path); !ok {
			return fmt.Errorf("%s: go.mod replaces %s, so go install refuses it", modulePath(dir), r.Old.Path)
		}
		if err := f.DropReplace(r.Old.Path, r.Old.Version); err != nil {
			return err
		}
	}
	var lines []sumLine
	for _, r := range slices.Clone(f.Require) {
		required, ok := moduleDir(r.Mod.Path)
		if !ok {
			continue
		}
		lines = append(lines, sums[required]...)
		if err := f.AddRequire(r.Mod.Path, version); err != nil {
			return err
		}
	}
	f.Cleanup()
	data, err := f.Format()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, dir, "go.mod"), data, 0o644); err != nil {
		return err
	}
	return addSums(filepath.Join(root, dir, "go.sum"), lines)
}

// replaceInWorkspace makes go.work replace a version of the modules with their directories, so
// that the workspace builds before the version is published.
func replaceInWorkspace(root, version string, dirs []string) error {
	work, err := readWorkspace(root)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		local := "./"
		if dir != "." {
			local += dir
		}
		if err := work.AddReplace(modulePath(dir), version, local, ""); err != nil {
			return err
		}
	}
	work.Cleanup()
	return os.WriteFile(filepath.Join(root, "go.work"), modfile.Format(work.Syntax), 0o644)
}

func readWorkspace(root string) (*modfile.WorkFile, error) {
	data, err := os.ReadFile(filepath.Join(root, "go.work"))
	if err != nil {
		return nil, err
	}
	return modfile.ParseWork("go.work", data, nil)
}

// A sumLine is a line of a go.sum file. The version of a go.mod file ends in /go.mod.
type sumLine struct {
	mod  module.Version
	hash string
}

func addSums(name string, lines []sumLine) error {
	if len(lines) == 0 {
		return nil
	}
	data, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	hashes := map[module.Version]string{}
	for _, l := range lines {
		hashes[l.mod] = l.hash
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 3 {
			hashes[module.Version{Path: f[0], Version: f[1]}] = f[2]
		}
	}
	var order []module.Version
	for m := range hashes {
		order = append(order, m)
	}
	module.Sort(order)
	var b strings.Builder
	for _, m := range order {
		fmt.Fprintln(&b, m.Path, m.Version, hashes[m])
	}
	return os.WriteFile(name, []byte(b.String()), 0o644)
}
