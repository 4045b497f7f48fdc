package scenario_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/scenario"
	"github.com/floodweir/weir/weirfile"
)

const (
	galleryDir  = "../../../../docs/gallery"
	galleryPage = galleryDir + ".md"
)

// TestGallery runs the test of every policy file of docs/gallery.md. Each test denies a
// request by every policy of its file, or reports it as denied in shadow mode.
func TestGallery(t *testing.T) {
	files := galleryFiles(t)
	if len(files) < 30 {
		t.Errorf("%d policy files, want 30 or more", len(files))
	}
	for _, name := range files {
		path := filepath.Join(galleryDir, strings.TrimSuffix(name, ".yaml")+"_test.yaml")
		text := read(t, path)
		f, err := scenario.Parse(path, []byte(text), scenario.Config{Load: weirfile.Load})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		for _, r := range f.Run(nil).Tests {
			if r.Failure != nil {
				t.Errorf("%s: %s", r.Name, r.Failure.Text())
			}
		}
		if !strings.HasPrefix(text, "policies: "+name+"\n") {
			t.Errorf("%s: want policies: %s in the first line", path, name)
		}
		policies, err := weirfile.Load(filepath.Join(galleryDir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range policies.Policies.Policies() {
			denies := regexp.MustCompile(`(policy: |shadow_denied: \[)` + regexp.QuoteMeta(p.Name()) + `\b`)
			if !denies.MatchString(text) {
				t.Errorf("%s: no request that policy %s denies", path, p.Name())
			}
		}
		if !strings.Contains(text, "expect: allow") && !strings.Contains(text, "decision: allow") {
			t.Errorf("%s: no admitted request", path)
		}
	}
}

// TestGalleryPage checks that the page lists every policy file once, in order, and that
// each file begins with a comment of one line.
func TestGalleryPage(t *testing.T) {
	page := read(t, galleryPage)
	var listed []string
	for line := range strings.Lines(page) {
		m := regexp.MustCompile(`^\| \[.+\]\(gallery/([^)]+)\) \|`).FindStringSubmatch(line)
		if m == nil {
			continue
		}
		listed = append(listed, m[1])
		cells := strings.ReplaceAll(regexp.MustCompile(`\]\([^)]*\)`).ReplaceAllString(line, "]"), "|", "")
		if n := len(strings.Fields(cells)); n > 12 {
			t.Errorf("%s: a row of %d words, want 12 or fewer", m[1], n)
		}
	}
	files := galleryFiles(t)
	if !slices.Equal(listed, files) {
		t.Errorf("the page lists %q, want %q", listed, files)
	}
	for _, name := range files {
		lines := strings.Split(read(t, filepath.Join(galleryDir, name)), "\n")
		if !strings.HasPrefix(lines[0], "# ") || strings.HasPrefix(lines[1], "#") {
			t.Errorf("%s: want a requirement in the first line, as the only comment above the policies", name)
		}
	}
	if n := len(strings.Fields(page)); n > 450 {
		t.Errorf("%d words, want 450 or fewer", n)
	}
}

// galleryFiles returns the names of the policy files, without their tests.
func galleryFiles(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(galleryDir + "/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range found {
		if !strings.HasSuffix(f, "_test.yaml") {
			names = append(names, filepath.Base(f))
		}
	}
	return names
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
