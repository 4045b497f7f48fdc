// Command figures prints figures about the source tree: words, lines and repetition.
//
//	go run ./tools/figures [DIR]
//
// It reads DIR (the working directory if none is given) without building it, so two
// checkouts can be compared. TestSizes (layers_size_test.go) has the sizes of packages and
// types.
package main

import (
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

var (
	persons = regexp.MustCompile(`\b([Nn]obody|[Ss]omebody|[Ww]hoever)\b`)
	telling = regexp.MustCompile(`(?i)\b(told|tells)\b`)
	block   = regexp.MustCompile("(?ms)^\\s*```.*?^\\s*```\\s*$")
	other   = regexp.MustCompile(`(?m)^English · \[简体中文\].*$`) // the link to the Chinese page
	forms   = regexp.MustCompile(`(?m)^\s*// (?:(?:A|An|The) )?\S+ (?:is|are) (?:what|who|that of|those of)\b`)
)

// window is the number of lines that make a repetition.
const window = 6

type figures struct {
	persons, telling, forms int
	lines                   map[string]int // by area and kind
	pages, words, prose     int            // English; a word has a letter or a digit, and prose is words outside of code blocks and links to the Chinese page
	windows                 map[uint64]int // windows of lines, by hash
}

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	if err := run(root); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	f := figures{lines: map[string]int{}, windows: map[uint64]int{}}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			if name != root && (base == "testdata" || base == "node_modules" || base == "cover" || base[0] == '.') {
				return fs.SkipDir
			}
			return nil
		}
		rel, _ := filepath.Rel(root, name)
		ext := path.Ext(base)
		if !slices.Contains([]string{".go", ".lua", ".js", ".sql", ".md"}, ext) {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f.file(filepath.ToSlash(rel), ext, string(text))
		return nil
	})
	if err != nil {
		return err
	}
	f.print()
	return nil
}

// words counts the words of a text. The bars and lines of tables are none.
func words(text string) (n int) {
	for word := range strings.FieldsSeq(text) {
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

// file adds the figures of one file.
func (f *figures) file(name, ext, text string) {
	if ext == ".md" {
		if !strings.Contains(name, "zh-CN") {
			f.pages++
			f.words += words(text)
			f.prose += words(block.ReplaceAllString(other.ReplaceAllString(text, ""), ""))
		}
		return
	}
	area, _, nested := strings.Cut(name, "/")
	if !nested {
		area = "weir"
	}
	kind := strings.TrimPrefix(ext, ".")
	if strings.HasSuffix(name, "_test.go") {
		kind = "go tests"
	}
	if strings.HasPrefix(name, "flashsale/verify/") {
		area = "flashsale/verify"
	}
	f.lines[area+" "+kind] += strings.Count(text, "\n")
	if kind != "go" {
		return
	}
	for line := range strings.Lines(text) {
		if persons.MatchString(line) {
			f.persons++
		}
		if telling.MatchString(line) {
			f.telling++
		}
	}
	f.forms += len(forms.FindAllString(text, -1))
	f.repetition(text)
}

// repetition counts windows of lines that have code.
func (f *figures) repetition(text string) {
	var code []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if len(line) > 3 && !strings.HasPrefix(line, "//") && !strings.HasPrefix(line, `"`) {
			code = append(code, line)
		}
	}
	for i := 0; i+window <= len(code); i++ {
		h := fnv.New64a()
		h.Write([]byte(strings.Join(code[i:i+window], "\n")))
		f.windows[h.Sum64()]++
	}
}

func (f *figures) print() {
	fmt.Printf("Go lines with nobody, somebody, whoever: %d\n", f.persons)
	fmt.Printf("Go lines with told, tells: %d\n", f.telling)
	fmt.Printf("doc comments \"X is what, who, that of\": %d\n", f.forms)
	fmt.Printf("English pages: %d, words: %d, without code blocks: %d\n", f.pages, f.words, f.prose)
	repeated := 0
	for _, n := range f.windows {
		repeated += n - 1
	}
	fmt.Printf("repeated windows of %d Go lines: %d\n", window, repeated)
	total := 0
	fmt.Println("\nlines")
	for _, area := range slices.Sorted(maps.Keys(f.lines)) {
		fmt.Printf("  %-28s %6d\n", area, f.lines[area])
		total += f.lines[area]
	}
	fmt.Printf("  %-28s %6d\n", "all", total)
}
