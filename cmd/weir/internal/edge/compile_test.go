package edge_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/edge"
	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/weirfile"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func parse(t testing.TB, text string) *weirfile.File {
	t.Helper()
	f, err := weirfile.Parse("weir.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// golden compares got with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (run with -update to rewrite it):\n%s", name, got)
	}
}

// TestCompile compiles policies that use nearly every supported field.
func TestCompile(t *testing.T) {
	text, err := os.ReadFile("testdata/common.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := edge.Compile(parse(t, string(text)).Policies, edge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if p.Script != redisstore.Script() {
		t.Error("the plan has another script than redisstore")
	}
	p.Script = "…"
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(p); err != nil {
		t.Fatal(err)
	}
	golden(t, "common.json", b.Bytes())
}
