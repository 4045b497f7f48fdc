package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestTally counts the tests of a module made for it.
func TestTally(t *testing.T) {
	const good = "package p\nimport \"testing\"\nfunc TestA(t *testing.T) {}\n"
	for name, c := range map[string]struct {
		test        string
		want        counts
		ok          bool
		print, hide string
	}{
		"passes":      {test: good, want: counts{passed: 1}, ok: true, hide: "TestA"},
		"subtests":    {test: good + "func TestB(t *testing.T) { t.Run(\"x\", TestA); t.Run(\"y\", TestA) }", want: counts{passed: 3}, ok: true},
		"fails":       {test: good + "func TestB(t *testing.T) { t.Error(\"why\") }", want: counts{passed: 1, failed: 1}, print: "why"},
		"fails below": {test: good + "func TestB(t *testing.T) { t.Run(\"x\", func(t *testing.T) { t.Error(\"why\") }) }", want: counts{passed: 1, failed: 1}, print: "why"},
		"parent alone": {test: good + "func TestB(t *testing.T) { t.Run(\"x\", TestA); t.Error(\"why\") }",
			want: counts{passed: 2, failed: 1}, print: "why"},
		"panics": {test: good + "func TestB(t *testing.T) { panic(\"why\") }", want: counts{passed: 1, failed: 1}, print: "panic: why"},
		"hangs": {test: "package p\nimport \"testing\"\nfunc TestB(t *testing.T) { t.Parallel(); select {} }\nfunc TestC(t *testing.T) { t.Parallel() }\n",
			want: counts{passed: 1, failed: 1}, print: "p.TestB("},
		"exits":      {test: good + "func TestB(t *testing.T) { os.Exit(3) }", want: counts{passed: 1, failed: 1}, print: "FAIL"},
		"no build":   {test: good + "func TestB(t *testing.T) { why }", print: "undefined: why"},
		"skips":      {test: good + "func TestB(t *testing.T) { t.Skip(\"why\") }", want: counts{passed: 1, skipped: 1}, print: "why"},
		"none":       {test: "package p"},
		"a bad flag": {test: good, print: "not defined"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			text := strings.Replace(c.test, "\"testing\"", "(\n\"os\"\n\"testing\"\n)\nvar _ = os.Exit", 1)
			write(t, dir, "go.mod", "module p\n\ngo 1.26.0\n")
			write(t, dir, "p_test.go", text)
			var out strings.Builder
			t.Chdir(dir)
			args := []string{"unit", "GOWORK=off", "-count=1", "-vet=off", "--", "./..."}
			switch name {
			case "a bad flag":
				args[2] = "-nonsense"
			case "hangs":
				args[2] = "-timeout=1s"
			}
			err := run(args, &out)
			if (err == nil) != c.ok {
				t.Errorf("run = %v, want ok = %v", err, c.ok)
			}
			want := fmt.Sprintf("%d passed, %d failed, %d skipped", c.want.passed, c.want.failed, c.want.skipped)
			if !strings.Contains(out.String(), "\n"+want+"\n") {
				t.Errorf("last line is not %q:\n%s", want, &out)
			}
			if !strings.Contains(out.String(), c.print) || c.hide != "" && strings.Contains(out.String(), c.hide) {
				t.Errorf("want %q and not %q in:\n%s", c.print, c.hide, &out)
			}
		})
	}
}

// TestTogether counts packages of several modules in one stage.
func TestTogether(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "go.work", "go 1.26.0\n\nuse (\n\t./a\n\t./b\n)\n")
	for _, m := range []string{"a", "b"} {
		if err := os.MkdirAll(filepath.Join(dir, m, "in"), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, dir, m+"/go.mod", "module "+m+"\n\ngo 1.26.0\n")
		for _, at := range []string{m, m + "/in"} {
			write(t, dir, at+"/p_test.go", "package p\nimport \"testing\"\nfunc TestA(t *testing.T) {}\n")
		}
	}
	t.Chdir(dir)
	t.Setenv("GOWORK", "")
	for places, want := range map[string]string{
		"./a ./b":         "ok          2 passed",
		"./a/... ./b":     "ok          3 passed",
		"./a/in ./b/none": "FAIL        1 passed",
	} {
		var out strings.Builder
		if err := run(append([]string{"unit", "-count=1", "-vet=off", "--"}, strings.Fields(places)...), &out); (err == nil) != strings.HasPrefix(want, "ok") || !strings.Contains(out.String(), want) {
			t.Errorf("run of %s = %v, want %q in:\n%s", places, err, want, &out)
		}
	}
}

// TestBeside runs two stages of which each waits for a file of the other.
func TestBeside(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "go.mod", "module p\n\ngo 1.26.0\n")
	for _, of := range [][2]string{{"a", "b"}, {"b", "a"}} {
		if err := os.Mkdir(filepath.Join(dir, of[0]), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, dir, of[0]+"/p_test.go", fmt.Sprintf(`package p
import ("os"; "testing"; "time")
func TestA(t *testing.T) {
	if err := os.WriteFile("here", nil, 0o644); err != nil { t.Fatal(err) }
	for end := time.Now().Add(time.Minute); ; {
		if _, err := os.Stat("../%s/here"); err == nil { return }
		if time.Now().After(end) { t.Fatal("the other stage does not run") }
	}
}
`, of[1]))
	}
	t.Chdir(dir)
	t.Setenv("GOWORK", "off")
	var out strings.Builder
	if err := run(strings.Fields("one -vet=off -- ./a beside two -vet=off -- ./b"), &out); err != nil || !strings.Contains(out.String(), "\n2 passed, 0 failed") {
		t.Errorf("run = %v, want 2 passed in:\n%s", err, &out)
	}
}

// TestNext runs two stages one after the other beside one that waits for the second.
func TestNext(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "go.mod", "module p\n\ngo 1.26.0\n")
	for name, test := range map[string]string{
		"a": `if err := os.WriteFile("here", nil, 0o644); err != nil { t.Fatal(err) }`,
		"b": `if _, err := os.Stat("../a/here"); err != nil { t.Fatal("too early") }
			if err := os.WriteFile("here", nil, 0o644); err != nil { t.Fatal(err) }`,
		"c": `for end := time.Now().Add(time.Minute); ; {
				if _, err := os.Stat("../b/here"); err == nil { return }
				if time.Now().After(end) { t.Fatal("the other stages do not run") }
			}`,
	} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, dir, name+"/p_test.go", `package p
import ("os"; "testing"; "time")
var _ = time.Now
func TestA(t *testing.T) { `+test+` }
`)
	}
	t.Chdir(dir)
	t.Setenv("GOWORK", "off")
	var out strings.Builder
	if err := run(strings.Fields("one -vet=off -- ./a next two -vet=off -- ./b beside three -vet=off -- ./c"), &out); err != nil || !strings.Contains(out.String(), "\n3 passed, 0 failed") {
		t.Errorf("run = %v, want 3 passed in:\n%s", err, &out)
	}
}

func TestParse(t *testing.T) {
	gs, err := parse(strings.Fields("one A=1 -x -- a b/... then two -y -- c beside three -- d next four -- e"))
	want := []stage{
		{name: "one", env: []string{"A=1"}, flags: []string{"-x"}, pkg: []string{"a", "b/..."}},
		{name: "two", flags: []string{"-y"}, pkg: []string{"c"}, when: "then"},
		{name: "three", pkg: []string{"d"}, when: "beside"},
		{name: "four", pkg: []string{"e"}, when: "next"},
	}
	if err != nil || !reflect.DeepEqual(gs, want) {
		t.Errorf("parse = %v, %v, want %v", gs, err, want)
	}
	for _, args := range []string{"", "-x", "one -x", "one -x --", "-x -- a", "one -x -- a then", "then -- a", "one -- a beside", "beside -- a"} {
		if gs, err := parse(strings.Fields(args)); err == nil {
			t.Errorf("parse(%q) = %v, want the usage", args, gs)
		}
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
