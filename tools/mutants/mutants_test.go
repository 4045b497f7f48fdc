package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestListMatchesTree checks that every mutant can be planted.
func TestListMatchesTree(t *testing.T) {
	mutants, err := readList("mutants.txt")
	if err != nil {
		t.Fatal(err)
	}
	if err := check("../..", mutants); err != nil {
		t.Error(err)
	}
	if len(mutants) < 190 {
		t.Errorf("got %d mutants, want at least 190", len(mutants))
	}
}

func TestParse(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"mutant a\nfile f\ntest ./p TestX\n- x", ""},
		{"# only a comment", ""},
		{"mutant a\nfile f\ntest ./p\n- x\n+ x", "want a name"},
		{"mutant a\nfile f\n- x\n+ y", "want a name"},
		{"mutant a\nfile f\ntest ./p\n+ y", "want a name"},
		{"file f\ntest ./p\n- x\n+ y", "want a name"},
		{"mutant a\nfiles f", "want mutant"},
	} {
		_, err := parse(tt.text)
		if got := err != nil; got != (tt.want != "") || got && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("parse(%q) = %v, want an error with %q", tt.text, err, tt.want)
		}
	}
}

// TestRun runs the program on a small module of its own.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":      "module example.com/m\n\ngo 1.26\n",
		"m.go":        "package m\n\nfunc Max(a, b int) int {\n\tif a > b {\n\t\treturn a\n\t}\n\treturn b\n}\n",
		"m_test.go":   "package m\n\nimport \"testing\"\n\nfunc TestMax(t *testing.T) {\n\tif Max(2, 1) != 2 {\n\t\tt.Error(\"Max\")\n\t}\n}\n",
		"mutants.txt": "mutant caught\nfile m.go\ntest . TestMax\n- a > b\n+ a < b\n\nmutant missed\nfile m.go\ntest .\n- a > b\n+ a >= b\n\nmutant broken\nfile m.go\ntest .\n- a > b\n+ c > b\n",
		"none.txt":    "mutant none\nfile m.go\ntest . TestMin\n- a > b\n+ a < b\n",
		"twice.txt":   "mutant twice\nfile m.go\ntest .\n- return\n+ panic\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	t.Setenv("GOWORK", "off")
	start := func(list string, args ...string) (string, bool, error) {
		var out bytes.Buffer
		ok, err := run(t.Context(), append([]string{"-root", dir, "-list", filepath.Join(dir, list)}, args...), &out)
		return out.String(), ok, err
	}
	out, ok, err := start("mutants.txt")
	if ok || err != nil {
		t.Errorf("run = %t, %v, want false", ok, err)
	}
	for _, want := range []string{"caught  caught", "TestMax", "MISSED  missed", "BROKEN  broken", "1 of 3 mutants caught"} {
		if !strings.Contains(out, want) {
			t.Errorf("output has no %q:\n%s", want, out)
		}
	}
	if out, ok, err = start("mutants.txt", "-only", "^caught$"); !ok || err != nil {
		t.Errorf("run -only = %t, %v, want true\n%s", ok, err, out)
	}
	if out, ok, err = start("none.txt"); ok || err != nil || !strings.Contains(out, "no test has this name") {
		t.Errorf("run with a test that does not exist = %t, %v\n%s", ok, err, out)
	}
	if _, _, err = start("twice.txt"); err == nil || !strings.Contains(err.Error(), "2 times") {
		t.Errorf("run with a text that occurs twice = %v, want an error", err)
	}
	if was, err := os.ReadFile(filepath.Join(dir, "m.go")); err != nil || !strings.Contains(string(was), "a > b") {
		t.Errorf("the tree changed: %v\n%s", err, was)
	}
}
