package ratelimit_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestBadFiles compares the errors of each file in testdata/bad with the .golden file beside
// it.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 25 {
		t.Fatalf("%d files, %v, want at least 25", len(files), err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = ratelimit.Parse(filepath.Base(name), data)
		if err == nil {
			t.Errorf("%s: no error, want one", name)
			continue
		}
		checkErrors(t, filepath.Base(name), err)
		golden := strings.TrimSuffix(name, ".yaml") + ".golden"
		got := err.Error() + "\n"
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(golden); err != nil || got != string(want) {
			t.Errorf("%s differs (%v); run with -update and look at the difference. Got:\n%s", golden, err, got)
		}
	}
}

// checkErrors checks the properties of the errors of every file.
func checkErrors(t *testing.T, name string, err error) {
	t.Helper()
	var errs ratelimit.Errors
	if !errors.As(err, &errs) || len(errs) == 0 || !errors.Is(err, weir.ErrInvalid) {
		t.Fatalf("%s: error %T, want Errors that wrap weir.ErrInvalid", name, err)
	}
	if len(errs) > 201 {
		t.Errorf("%s: %d errors, want at most 201", name, len(errs))
	}
	for _, e := range errs {
		text := e.Error()
		if e.File != name || e.Line < 1 || e.Column < 1 || e.Want == "" || len(text) > 1000 || strings.ContainsAny(text, "\n\x00") {
			t.Errorf("%s: error %.300q, want one line with a place and what was expected", name, text)
		}
	}
}

// TestBadDirectory checks that the faults of all files are reported in their order.
func TestBadDirectory(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", "domain: one\n")
	write(t, dir, "b.yaml", "domain: one\ndescriptors: [{key: a}]\n")
	write(t, dir, "c.yml", "domain: two\ndescriptors: [{value: a}]\n")
	_, err := ratelimit.Load(dir)
	want := dir + `/b.yaml:1:9: domain: "one": want every domain once: ` + dir + "/a.yaml has it already\n" +
		dir + "/c.yml:2:15: descriptors[0].key: want the key of an entry, a text"
	if err == nil || err.Error() != want {
		t.Errorf("Load() = %v, want\n%s", err, want)
	}
	if _, err := ratelimit.Load(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Load of what is not there = %v, want os.ErrNotExist", err)
	}
	if _, err := ratelimit.Load(t.TempDir()); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("Load of an empty directory = %v, want weir.ErrInvalid", err)
	}
}

// TestBounds checks the bounds on files and nesting.
func TestBounds(t *testing.T) {
	if _, err := ratelimit.Parse("large", make([]byte, ratelimit.MaxSize+1)); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("Parse of a large file = %v", err)
	}
	dir := t.TempDir()
	for i := range ratelimit.MaxFiles + 1 {
		write(t, dir, "f"+strings.Repeat("x", i%200)+string(rune('a'+i/200))+".yaml", "")
	}
	if _, err := ratelimit.Load(dir); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("Load of %d files = %.100v", ratelimit.MaxFiles+1, err)
	}
	many := "domain: d\ndescriptors:\n" + strings.Repeat("  - key: a\n", 5000)
	_, err := ratelimit.Parse("many", []byte(many))
	checkErrors(t, "many", err)
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
