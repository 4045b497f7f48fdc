package weave

import (
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		line                         string
		verb, dir, flags, pkgs, rest string
	}{
		{"build", "build", "", "", "", ""},
		{"build -o out -v ./a ./b", "build", "", "-o out -v", "./a ./b", ""},
		{"build -o=out -tags a,b", "build", "", "-o=out -tags a,b", "", ""},
		{"-C dir build .", "build", "dir", "", ".", ""},
		{"build -C=dir -race .", "build", "dir", "-race", ".", ""},
		{"run -race . -race x", "run", "", "-race", ".", "-race x"},
		{"run a.go b.go c -o d.go", "run", "", "", "a.go b.go", "c -o d.go"},
		{"run . x.go", "run", "", "", ".", "x.go"},
		{"test ./a ./b -run X -count 1", "test", "", "", "./a ./b", "-run X -count 1"},
		{"test -run X -c . -test.v", "test", "", "-run X -c", ".", "-test.v"},
		{"test -v -args -overlay=x", "test", "", "-v", "", "-args -overlay=x"},
		{"vet -c 3 -printf=false .", "vet", "", "-c 3 -printf=false", ".", ""},
		{"list -f {{.Dir}} -deps .", "list", "", "-f {{.Dir}} -deps", ".", ""},
		{"env -w A=b", "env", "", "", "", "-w A=b"},
		{"build -o", "build", "", "-o", "", ""},
		{"", "", "", "", "", ""},
	} {
		got, err := parse(strings.Fields(c.line))
		if err != nil {
			t.Errorf("parse(%q): %v", c.line, err)
			continue
		}
		for _, p := range []struct {
			what, want string
			got        []string
		}{{"flags", c.flags, got.flags}, {"packages", c.pkgs, got.packages}, {"rest", c.rest, got.rest}} {
			if !slices.Equal(p.got, strings.Fields(p.want)) {
				t.Errorf("parse(%q): %s = %q, want %q", c.line, p.what, p.got, p.want)
			}
		}
		if got.verb != c.verb || got.dir != c.dir {
			t.Errorf("parse(%q) = %q in %q, want %q in %q", c.line, got.verb, got.dir, c.verb, c.dir)
		}
	}
	if _, err := parse([]string{"build", "-C"}); err == nil || !strings.Contains(err.Error(), "-C: want a directory") {
		t.Errorf("parse(build -C) = %v", err)
	}
}

func TestFlags(t *testing.T) {
	c, err := parse(strings.Fields("test -tags=a -overlay x -v ./... -run X -overlay=y -args -overlay=z"))
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := c.value("overlay"); v != "y" || !ok {
		t.Errorf("value(overlay) = %q, %v", v, ok)
	}
	if got := strings.Join(c.only(loading), " "); got != "-tags=a -overlay x -overlay=y" {
		t.Errorf("only(loading) = %q", got)
	}
	if got := strings.Join(c.without(c.rest, "overlay"), " "); got != "-run X -args -overlay=z" {
		t.Errorf("without(overlay) = %q", got)
	}
	for line, want := range map[string]bool{
		"test -cover": true, "test -cover=false": false, "test . -coverprofile c": true, "build -coverpkg=./...": true,
		"run . -cover": false, "test -run cover": false,
	} {
		c, err := parse(strings.Fields(line))
		if err != nil || c.covers(nil) != want {
			t.Errorf("%q covers: %v, %v, want %v", line, !want, err, want)
		}
	}
	if c := (&command{verb: "test"}); !c.covers([]string{"-mod=mod", "-cover"}) {
		t.Error("GOFLAGS=-cover does not cover")
	}
}

func TestSplit(t *testing.T) {
	got, err := split(` -a "-ldflags=-s -w"  '-tags=x y' -b`)
	if want := []string{"-a", "-ldflags=-s -w", "-tags=x y", "-b"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("split = %q, %v, want %q", got, err, want)
	}
	if _, err := split(`-a "b`); err == nil || !strings.Contains(err.Error(), "want a quote") {
		t.Errorf("split of an open quote = %v", err)
	}
}

// FuzzParse loses no argument, and adds none.
func FuzzParse(f *testing.F) {
	for _, line := range []string{"build -o x .", "run a.go b", "test ./... -run x -args y", "-C d vet", "list -- a", "build -"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Fields(line)
		c, err := parse(args)
		if err != nil || c.dir != "" || len(args) > 0 && isFlag(args[0]) && name(args[0]) == "C" ||
			len(args) > 1 && isFlag(args[1]) && name(args[1]) == "C" {
			return
		}
		if got := c.line(nil); !slices.Equal(got, args) {
			t.Errorf("parse(%q) is %q again", args, got)
		}
		c.all()
	})
}

// FuzzSplit finds what it has joined.
func FuzzSplit(f *testing.F) {
	f.Add(`-a "b c" 'd'`)
	f.Add(`"`)
	f.Fuzz(func(t *testing.T, list string) {
		words, err := split(list)
		if err != nil {
			return
		}
		for _, w := range words {
			if strings.Contains(w, `"`) && strings.Contains(w, "'") {
				return // cannot be quoted
			}
		}
		var quoted []string
		for _, w := range words {
			q := `"`
			if strings.Contains(w, q) {
				q = "'"
			}
			quoted = append(quoted, q+w+q)
		}
		if again, err := split(strings.Join(quoted, " ")); err != nil || !slices.Equal(again, words) {
			t.Errorf("split(%q) = %q, and %q of that, %v", list, words, again, err)
		}
	})
}

func TestTrims(t *testing.T) {
	for _, c := range []struct {
		args, goflags string
		want          bool
	}{
		{"build .", "", false},
		{"run .", "-trimpath", true},
		{"build -trimpath .", "", true},
		{"build -trimpath=false .", "-trimpath", false},
		{"run .", "-trimpath -trimpath=false", false},
		{"test .", "-trimpath", false},
	} {
		cmd, err := parse(strings.Fields(c.args))
		if err != nil {
			t.Fatal(err)
		}
		if got := cmd.trims(strings.Fields(c.goflags)); got != c.want {
			t.Errorf("go %s with GOFLAGS=%q: -trimpath is %t, want %t", c.args, c.goflags, got, c.want)
		}
	}
}
