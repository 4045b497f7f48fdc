//go:build !race

package weir_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// wordsIn restricts TestWords to one directory: go test -run TestWords . -words.in=policy.
var wordsIn = flag.String("words.in", "", "check the language of this directory or file only")

// bannedWords are words that docs/glossary.md replaces, in comments, strings and pages.
// The pattern of a row matches whole words, without case.
var bannedWords = []struct{ pattern, instead string }{
	{`nobody|somebody|anybody|everybody|whoever|whomever|someone|anyone`, "name the actor: caller, client, request, process, node, user, operator"},
	{`tells?|told|telling`, "report, return, say in a field, print, notify"},
	{`hears?|heard|unheard|believes?|believed|lies to|knocks?|knocking|speaks?`, "receive, trust, call, support"},
	{`strangers?|debtors?|ghosts?|crowds?|outsiders?|newcomers?`, "overflow bucket, key with debt, clients, users"},
	{`doors?`, "interface, listener, handler"},
	{`mend|mends|mended|mending`, "fix, repair"},
	{`mischief|thief|thieves|museum|theatre|usher|warden|clerk|undertaker`, "the technical term"},
	{`wards?`, "protection: breaker, bulkhead, adaptive limit"},
	{`many a|ere|thereof|whence|wherefore|hither|nought|naught`, "plain English"},
	{`goes away|go away|going away|gone away|went away`, "disconnect, end, expire"},
	{`is due to nobody|at rest|at peace|in peace|of its own accord`, "plain English"},
}

// bannedForms are sentence forms of doc comments that hide the fact or the actor.
var bannedForms = []struct{ pattern, instead string }{
	{`^(?:(?:A|An|The) )?\S+ (?:is|are) (?:what|who|that of|those of|how|whom|whose)\b`, "say what it does: name, verb, object"},
	{`(?:^|[.:;] )(?:Who|Whom|Whose) [a-z]+`, "name the actor"},
	{`(?:^|\. )(?:Of|One of 0|What is|What has|What was) [a-z]+`, "put the subject first"},
}

// verbless are first words after the name of a doc comment that are verbs although they do
// not end in s.
var verbless = []string{"are", "can", "may", "must", "do", "have", "were", "will", "cannot"}

const maxSentence = 30 // words

// sharedTypeNames are exported type names that several packages use for the same concept.
// Any other exported type name of the library modules has one package.
var sharedTypeNames = map[string]string{
	"Config":     "the configuration of the package's main type",
	"Error":      "one invalid value (internal/fault)",
	"Errors":     "the invalid values of one configuration (internal/fault)",
	"Protection": "an alias in guard of that of protect",
	"Store":      "an implementation of weir.Store",
	"Event":      "the argument of an Observe callback",
	"Stats":      "the counts and the state of a store",
	"Denied":     "the error of a client-side denial",
	"Result":     "the result of the package's one operation",
	"Conn":       "an implementation of redisstore.Conn",
	"Options":    "optional settings, embedded or passed",
	"Route":      "an HTTP route",
	"Listener":   "a listener of HTTP connections, or its settings",
	"Tenant":     "a child of a weir.TenantBucket",

	"Client":       "the interceptor of an RPC framework for clients",
	"ClientConfig": "the configuration of that Client",
	"Server":       "the interceptor of an RPC framework for servers",

	"ProtectConfig": "the configuration of a protect.Chain at an interface",
}

// TestWords checks the language of every source file and page against docs/glossary.md.
func TestWords(t *testing.T) {
	c := newWordCheck()
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		base := path.Base(name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && (base == "testdata" || base == "node_modules" || base == "cover" || base[0] == '.' || base[0] == '_') {
				return fs.SkipDir
			}
			return nil
		}
		if outside(name) {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return c.file(name, text)
	})
	if err != nil {
		t.Fatal(err)
	}
	c.types()
	for _, b := range c.broken {
		t.Error(b)
	}
	if m := c.median(); m > 16 {
		t.Errorf("the median sentence has %d words, want 16 or fewer", m)
	}
	if c.files < 10 && *wordsIn == "" {
		t.Errorf("checked %d files, want the whole tree", c.files)
	}
	t.Logf("%d files, %d sentences, median %d words, %d findings", c.files, len(c.lengths), c.median(), len(c.broken))
}

// outside reports whether -words.in excludes a file.
func outside(name string) bool {
	return *wordsIn != "" && name != *wordsIn && !strings.HasPrefix(name, *wordsIn+"/")
}

// A wordCheck collects findings over many files.
type wordCheck struct {
	banned  *regexp.Regexp
	forms   []*regexp.Regexp
	broken  []string
	lengths []int
	files   int
	typed   map[string]map[string]bool // directories by exported type name
}

func newWordCheck() *wordCheck {
	c := &wordCheck{typed: map[string]map[string]bool{}}
	var all []string
	for _, b := range bannedWords {
		all = append(all, b.pattern)
	}
	c.banned = regexp.MustCompile(`(?i)\b(?:` + strings.Join(all, "|") + `)\b`)
	for _, f := range bannedForms {
		c.forms = append(c.forms, regexp.MustCompile(f.pattern))
	}
	return c
}

func (c *wordCheck) report(name string, line int, format string, args ...any) {
	c.broken = append(c.broken, fmt.Sprintf("%s:%d: ", name, line)+fmt.Sprintf(format, args...))
}

// file checks one file by its kind.
func (c *wordCheck) file(name string, text []byte) error {
	switch {
	case strings.HasSuffix(name, "words_test.go"), strings.HasSuffix(name, "docs/glossary.md"), name == "tools/figures/main.go":
		return nil // they list the words
	case path.Ext(name) == ".go":
		c.files++
		return c.goFile(name, text)
	case path.Ext(name) == ".md":
		c.files++
		c.page(name, string(text))
	case slices.Contains([]string{".lua", ".js", ".sql", ".html", ".yaml", ".yml", ".json", ".css", ".sh", ".conf"}, path.Ext(name)), path.Base(name) == "Makefile":
		c.files++
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			c.words(name, n, line)
		}
	}
	return nil
}

// words reports banned words of one line.
func (c *wordCheck) words(name string, line int, text string) {
	for _, w := range c.banned.FindAllString(text, -1) {
		c.report(name, line, "%q: want %s", w, insteadOf(w))
	}
}

func insteadOf(word string) string {
	for _, b := range bannedWords {
		if regexp.MustCompile(`(?i)^(?:` + b.pattern + `)$`).MatchString(word) {
			return b.instead
		}
	}
	return "another word"
}

// goFile checks the comments, the strings and the doc comments of a Go file.
func (c *wordCheck) goFile(name string, text []byte) error {
	if bytes.Contains(text[:min(len(text), 200)], []byte("DO NOT EDIT")) {
		return nil
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	line := func(p token.Pos) int { return fset.Position(p).Line }
	for _, g := range f.Comments {
		for _, one := range g.List {
			for i, l := range strings.Split(one.Text, "\n") {
				c.words(name, line(one.Pos())+i, l)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			for i, l := range strings.Split(lit.Value, "\n") {
				c.words(name, line(lit.Pos())+i, l)
			}
		}
		return true
	})
	if f.Doc != nil {
		c.prose(name, line(f.Doc.Pos()), f.Doc.Text())
	}
	test := strings.HasSuffix(name, "_test.go")
	for _, d := range f.Decls {
		switch x := d.(type) {
		case *ast.FuncDecl:
			c.doc(name, line(x.Pos()), x.Name.Name, x.Doc)
			if strings.HasPrefix(x.Name.Name, "Test") {
				c.words(name, line(x.Pos()), splitName(x.Name.Name))
			}
		case *ast.GenDecl:
			for _, s := range x.Specs {
				switch y := s.(type) {
				case *ast.TypeSpec:
					doc := y.Doc
					if doc == nil && len(x.Specs) == 1 {
						doc = x.Doc
					}
					c.doc(name, line(y.Pos()), y.Name.Name, doc)
					if !test && !y.Assign.IsValid() && y.Name.IsExported() && f.Name.Name != "main" && library(name) {
						if c.typed[y.Name.Name] == nil {
							c.typed[y.Name.Name] = map[string]bool{}
						}
						c.typed[y.Name.Name][path.Dir(name)] = true
					}
					c.fields(name, line, y)
				case *ast.ValueSpec:
					if doc := y.Doc; doc != nil {
						c.prose(name, line(y.Pos()), doc.Text())
					} else if x.Doc != nil && len(x.Specs) == 1 {
						c.prose(name, line(y.Pos()), x.Doc.Text())
					}
				}
			}
		}
	}
	return nil
}

// library reports whether a file belongs to a package that users import.
func library(name string) bool {
	for _, dir := range []string{"cmd/", "e2e/", "examples/", "benchmarks/", "tools/", "flashsale/", "edge/"} {
		if strings.HasPrefix(name, dir) {
			return false
		}
	}
	return !strings.Contains("/"+name, "/internal/")
}

// splitName turns TestDoorIsOpen into "Test Door Is Open".
func splitName(name string) string {
	return regexp.MustCompile(`([a-z0-9])([A-Z])`).ReplaceAllString(name, "$1 $2")
}

// fields checks the comments of the fields and methods of a type.
func (c *wordCheck) fields(name string, line func(token.Pos) int, s *ast.TypeSpec) {
	var list *ast.FieldList
	switch x := s.Type.(type) {
	case *ast.StructType:
		list = x.Fields
	case *ast.InterfaceType:
		list = x.Methods
	default:
		return
	}
	for _, f := range list.List {
		if f.Doc != nil {
			c.prose(name, line(f.Pos()), f.Doc.Text())
		}
	}
}

// doc checks that a doc comment states a fact: its name, then a verb. Comments in tests
// need no name.
func (c *wordCheck) doc(name string, line int, ident string, g *ast.CommentGroup) {
	if g == nil || strings.TrimSpace(g.Text()) == "" {
		return
	}
	text := g.Text()
	c.prose(name, line, text)
	words := strings.Fields(text)
	if len(words) > 1 && (words[0] == "A" || words[0] == "An" || words[0] == "The") {
		words = words[1:]
	}
	trim := func(w string) string { return strings.Trim(w, ".,:;()[]") }
	switch {
	case strings.HasSuffix(name, "_test.go"): // go doc does not show it
	case strings.HasPrefix(words[0], "Deprecated"):
	case trim(words[0]) != ident:
		c.report(name, line, "the doc comment of %s starts with %q: want its name and a verb", ident, words[0])
	case len(words) < 2:
		c.report(name, line, "the doc comment of %s has no verb", ident)
	default:
		verb := strings.ToLower(trim(words[1]))
		if strings.HasPrefix(words[1], "(") || strings.HasSuffix(words[0], ",") {
			return // an aside comes before the verb
		}
		if !strings.HasSuffix(verb, "s") && !slices.Contains(verbless, verb) {
			c.report(name, line, "the doc comment of %s says %q after its name: want a verb in the third person", ident, verb)
		}
	}
}

// sentenceEnd splits prose. Abbreviations and numbers do not end a sentence.
var sentenceEnd = regexp.MustCompile(`([.!?])["')\]]*(?:\s+)`)

// prose checks the sentences of one comment.
func (c *wordCheck) prose(name string, line int, text string) {
	first := true
	for _, para := range strings.Split(text, "\n\n") {
		if strings.HasPrefix(para, "\t") || strings.HasPrefix(para, "  ") || strings.HasPrefix(para, "# ") || strings.HasPrefix(para, "[") {
			continue // code, lists, headings and link targets
		}
		one := strings.Join(strings.Fields(para), " ")
		if first {
			first = false
			if m := c.forms[0].FindString(one); m != "" {
				c.report(name, line, "%q: want %s", m, bannedForms[0].instead)
			}
		}
		for i, f := range c.forms[1:] {
			if m := f.FindString(one); m != "" {
				c.report(name, line, "%q: want %s", m, bannedForms[i+1].instead)
			}
		}
		c.sentences(name, line, one)
	}
}

// sentences counts the words of each sentence.
func (c *wordCheck) sentences(name string, line int, text string) {
	marked := sentenceEnd.ReplaceAllString(strings.ReplaceAll(strings.ReplaceAll(text, "e.g. ", "e.g.,"), "i.e. ", "i.e.,"), "$1\x00")
	for _, s := range strings.Split(marked, "\x00") {
		n := len(strings.Fields(s))
		if n == 0 {
			continue
		}
		c.lengths = append(c.lengths, n)
		if n > maxSentence {
			c.report(name, line, "a sentence of %d words, want %d or fewer: %.60s…", n, maxSentence, s)
		}
	}
}

var (
	inlineCode = regexp.MustCompile("`[^`]*`")
	linkTarget = regexp.MustCompile(`\]\([^)]*\)`)
	han        = regexp.MustCompile(`\p{Han}`)
)

// page checks a page in Markdown: words everywhere but in code, sentences of paragraphs,
// list items and table cells. Chinese text is not counted in words.
func (c *wordCheck) page(name, text string) {
	fenced := false
	var para []string
	start := 0
	flush := func() {
		if one := strings.Join(para, " "); one != "" && !han.MatchString(one) {
			c.sentences(name, start, one)
		}
		para = nil
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") {
			fenced = !fenced
			flush()
			continue
		}
		c.words(name, n, linkTarget.ReplaceAllString(line, "]"))
		if fenced {
			continue
		}
		plain := linkTarget.ReplaceAllString(inlineCode.ReplaceAllString(trimmed, "code"), "]")
		switch {
		case trimmed == "" || strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, "<"):
			flush()
		case strings.HasPrefix(trimmed, "|"):
			flush()
			for _, cell := range strings.Split(strings.Trim(plain, "|"), "|") {
				if len(strings.Fields(cell)) > 5 { // a short cell is no sentence
					start, para = n, []string{strings.TrimSpace(cell)}
					flush()
				}
			}
		default:
			if strings.HasPrefix(trimmed, "- ") || strings.HasPrefix(trimmed, "* ") || regexp.MustCompile(`^\d+\. `).MatchString(trimmed) {
				flush()
				_, plain, _ = strings.Cut(plain, " ")
			}
			if len(para) == 0 {
				start = n
			}
			para = append(para, plain)
		}
	}
	flush()
}

// types reports exported type names that two packages use.
func (c *wordCheck) types() {
	for _, name := range slices.Sorted(maps.Keys(c.typed)) {
		if dirs := c.typed[name]; len(dirs) > 1 && sharedTypeNames[name] == "" {
			c.report(strings.Join(slices.Sorted(maps.Keys(dirs)), ", "), 0, "type %s has several packages: one name, one concept (or a row of sharedTypeNames with the reason)", name)
		}
	}
}

// median returns the median number of words of a sentence.
func (c *wordCheck) median() int {
	if len(c.lengths) == 0 {
		return 0
	}
	slices.Sort(c.lengths)
	return c.lengths[len(c.lengths)/2]
}

// TestWordsBreach shows that each rule of TestWords can fail.
func TestWordsBreach(t *testing.T) {
	for name, tc := range map[string]struct{ file, text, want string }{
		"banned in a comment":  {"a.go", "package a\n\n// F returns nobody.\nfunc F() {}\n", `"nobody"`},
		"banned in a string":   {"a.go", "package a\n\nvar x = \"a closed door\"\n", `"door"`},
		"banned in a test":     {"a_test.go", "package a\n\nfunc TestNobodyWaits() {}\n", `"Nobody"`},
		"banned in a page":     {"a.md", "The server tells the client.\n", `"tells"`},
		"banned in Lua":        {"a.lua", "-- whoever calls\n", `"whoever"`},
		"form":                 {"a.go", "package a\n\n// F is what a caller gets.\nfunc F() {}\n", "F is what"},
		"no actor":             {"a.go", "package a\n\n// F returns x. Who calls it waits.\nfunc F() {}\n", "Who calls"},
		"another name":         {"a.go", "package a\n\n// Returns x.\nfunc F() {}\n", `starts with "Returns"`},
		"no verb":              {"a.go", "package a\n\n// F the thing.\nfunc F() {}\n", `says "the"`},
		"long sentence":        {"a.md", strings.Repeat("word ", 31) + ".\n", "a sentence of 3"},
		"long sentence in doc": {"a.go", "package a\n\n// F returns " + strings.Repeat("word ", 31) + ".\nfunc F() {}\n", "a sentence of 3"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newWordCheck()
			if err := c.file(tc.file, []byte(tc.text)); err != nil {
				t.Fatal(err)
			}
			if len(c.broken) != 1 || !strings.Contains(c.broken[0], tc.want) {
				t.Errorf("findings = %q, want one with %q", c.broken, tc.want)
			}
		})
	}
	c := newWordCheck()
	c.file("a/x.go", []byte("package a\n\ntype Thing int\n"))
	c.file("b/x.go", []byte("package b\n\ntype Thing int\n"))
	if c.types(); len(c.broken) != 1 {
		t.Errorf("findings = %q, want one about the two types", c.broken)
	}
}
