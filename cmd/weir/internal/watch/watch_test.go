package watch_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/watch"
)

// patient is a time within which everything in a test happens, or has failed.
const patient = time.Minute

func watching(t *testing.T, c watch.Config) *watch.Watcher {
	t.Helper()
	if c.Quiet == 0 {
		c.Quiet = 10 * time.Millisecond
	}
	w, err := watch.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// replace renames a new file over path, so that no moment has half of the text.
func replace(t *testing.T, path, text string) {
	t.Helper()
	write(t, path+".new", text)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func changes(t *testing.T, w *watch.Watcher, what string) {
	t.Helper()
	select {
	case <-w.Changed():
	case <-time.After(patient):
		t.Fatalf("%s: no change reported", what)
	}
}

// TestChanges replaces a file in every usual way. The polling interval is too long to
// detect the change.
func TestChanges(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "weir.yaml")
	write(t, file, "one")
	w := watching(t, watch.Config{Paths: []string{file}, Poll: time.Hour})

	write(t, file, "two")
	changes(t, w, "written in place")

	replace(t, file, "three")
	changes(t, w, "renamed over")

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	changes(t, w, "removed")
	write(t, file, "four")
	changes(t, w, "there again")
}

// TestMountedLinks swaps the link by which a ConfigMap is replaced.
func TestMountedLinks(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"v1", "v2"} {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, version, "weir.yaml"), version)
	}
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, "tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "tmp"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("v1", "..data")
	link(filepath.Join("..data", "weir.yaml"), "weir.yaml")
	w := watching(t, watch.Config{Paths: []string{filepath.Join(dir, "weir.yaml")}, Poll: time.Hour})
	link("v2", "..data")
	changes(t, w, "the link leads elsewhere")
	write(t, filepath.Join(dir, "v2", "weir.yaml"), "v2 again")
	changes(t, w, "written where the link leads")
}

// TestForget checks that a change before Forget is not reported, and one after it is.
func TestForget(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir.yaml")
	write(t, file, "one")
	w := watching(t, watch.Config{Paths: []string{file}, Poll: time.Hour, Quiet: time.Millisecond})
	write(t, file, "two")
	changes(t, w, "before")
	for range 50 { // before, during and after the comparison
		write(t, file, "three")
		w.Forget()
		write(t, file, "four")
		w.Forget()
	}
	select {
	case <-w.Changed():
		t.Error("change reported for the content at Forget")
	case <-time.After(200 * time.Millisecond):
	}
	write(t, file, "five")
	changes(t, w, "after Forget")
}

// TestDirectory watches all files of a directory.
func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	w := watching(t, watch.Config{Paths: []string{dir}, Poll: time.Hour})
	write(t, filepath.Join(dir, "a.yaml"), "a")
	changes(t, w, "a new file")
	write(t, filepath.Join(dir, "a.yaml"), "b")
	changes(t, w, "another content")
}

// TestSameContent checks that a file that is written anew with what it had has not
// changed.
func TestSameContent(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "weir.yaml")
	write(t, file, "one")
	w := watching(t, watch.Config{Paths: []string{file}, Poll: time.Hour})
	replace(t, file, "one")
	write(t, filepath.Join(dir, "another"), "file")
	select {
	case <-w.Changed():
		t.Error("change reported for an unchanged file")
	case <-time.After(200 * time.Millisecond):
	}
	write(t, file, "two")
	changes(t, w, "after that")
}

// TestIncludes watches a file that another one names, also if it is named later.
func TestIncludes(t *testing.T) {
	dir := t.TempDir()
	file, table := filepath.Join(dir, "weir.yaml"), filepath.Join(dir, "tables", "overrides.csv")
	if err := os.Mkdir(filepath.Dir(table), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, file, "")
	w := watching(t, watch.Config{Paths: []string{file}, Poll: time.Hour, Includes: func() []string {
		text, err := os.ReadFile(file)
		if err != nil || len(text) == 0 {
			return nil
		}
		return []string{string(text)}
	}})
	write(t, file, table)
	changes(t, w, "a file names another")
	write(t, table, "a")
	changes(t, w, "the other file")
	write(t, table, "b")
	changes(t, w, "the other file again")
}

// TestPoll checks that a change without an event is detected: the directory does not
// exist when the watch begins.
func TestPoll(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	file := filepath.Join(dir, "weir.yaml")
	w := watching(t, watch.Config{Paths: []string{file}, Poll: 20 * time.Millisecond})
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, file, "one")
	changes(t, w, "a file in a new directory")
	w.Close()
	w.Close()
}

func TestNoPaths(t *testing.T) {
	if _, err := watch.New(watch.Config{}); err == nil {
		t.Error("New without paths = nil, want an error")
	}
}

// TestLinkAboveDirectory swaps a link above the watched directory, as a deployment of a
// directory of configuration does, and changes a file in a subdirectory.
func TestLinkAboveDirectory(t *testing.T) {
	root := t.TempDir()
	for _, version := range []string{"v1", "v2"} {
		if err := os.MkdirAll(filepath.Join(root, version, "app", "config", "sub"), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(root, version, "app", "config", "a.yaml"), version)
	}
	link := func(to string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(root, "next")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(root, "next"), filepath.Join(root, "current")); err != nil {
			t.Fatal(err)
		}
	}
	link("v1")
	w := watching(t, watch.Config{Paths: []string{filepath.Join(root, "current", "app", "config")}, Poll: time.Hour})
	link("v2")
	changes(t, w, "another version")
	write(t, filepath.Join(root, "v2", "app", "config", "sub", "b.yaml"), "b")
	changes(t, w, "a new file in a subdirectory")
}
