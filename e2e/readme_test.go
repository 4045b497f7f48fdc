//go:build !onlyredis

package e2e_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/floodweir/weir/e2e/pgtest"
	"github.com/floodweir/weir/e2e/programtest"
)

// instead maps commands of the pages to the commands that the test runs.
var instead = map[string]string{
	// Without network: the clone is of this working tree.
	"git clone https://github.com/floodweir/weir": "git clone -q \"$TREE\" weir && \"$OVERLAY\" \"$TREE\" weir",
	// No module is published for a working tree.
	"go get github.com/floodweir/weir@latest":          `go work init . "$TREE"`,
	"go get github.com/floodweir/weir/weirfile@latest": `go work init . "$TREE" "$TREE/weirfile" && cp "$TREE/go.work.sum" .`,
	// A service that make need installs.
	"python3 -m http.server 3000": "caddy respond --listen 127.0.0.1:3000 hello",
	// After the first go run of weir: it loads and checks 800 packages each time.
	"go run ./cmd/weir go run ./examples/counter/woven | sort | uniq -c": "weir go run ./examples/counter/woven | sort | uniq -c",
	"go run ./cmd/weir check weir.yaml":                                  "weir check weir.yaml",
	"go run ./cmd/weir serve weir.yaml":                                  "weir serve weir.yaml",
	// make test runs this test, so only its commands are printed, without lists of packages.
	"make test": "make -n test modules=. plain=. servers=.",
	// With -trimpath, go vet prints the paths of the directory in which it ran first for the same files.
	`go vet -vettool=$(command -v weir) ./... || echo "exit code $?"`: `echo "package main // $PWD" >place.go && go vet -vettool=$(command -v weir) ./... || echo "exit code $?"; rm place.go`,
}

// servers are the commands that run until they are stopped.
var servers = []server{
	{prefix: "go run ./cmd/weir serve", ready: "curl -fs -o /dev/null http://127.0.0.1:8080/readyz"},
	{prefix: "go run main.go", ready: ": </dev/tcp/127.0.0.1/3001"},
	{prefix: "caddy respond", ready: ": </dev/tcp/127.0.0.1/3000"},
	{prefix: "weir serve weir.yaml --listen-gateway 127.0.0.1:8001", ready: ": </dev/tcp/127.0.0.1/8001"},
	{prefix: "weir serve", ready: "curl -fs -o /dev/null http://127.0.0.1:8080/readyz", stops: "go run ./cmd/weir serve"},
	{prefix: "go run ./flashsale demo", ready: "curl -fs http://127.0.0.1:8088/api/sales | grep -q phase"},
	{prefix: "redis-server --port 6399", ready: "redis-cli -p 6399 ping"},
	{prefix: "env REDIS_URL=127.0.0.1:6399 RUNTIME_ROOT=$PWD", ready: "curl -fs -o /dev/null http://127.0.0.1:8080/healthcheck", stops: "weir serve"},
}

// overlay copies uncommitted changes over a fresh clone.
const overlay = `#!/bin/bash
set -euo pipefail
cd "$1" && { git diff -z --name-only --no-renames HEAD; git ls-files -z --others --exclude-standard; } |
	while IFS= read -r -d '' f; do if [ -e "$f" ]; then printf '%s\0' "$f"; fi; done |
	tar -c --null -T - | tar -x -C "$OLDPWD/$2"
`

// pageVariable names the directory in which a process started by alone follows a page.
const pageVariable = "WEIR_TEST_PAGE"

// TestDocs follows the pages: README.md and docs/quick-start.md in an empty directory, the others
// from the root of a fresh clone. A Chinese page has the same blocks as the English one (TestLanguages of the
// root).
func TestDocs(t *testing.T) {
	t.Parallel()
	all := []string{"../README.md", "../CONTRIBUTING.md", "../SECURITY.md"}
	for _, g := range []string{"../docs/*.md", "../docs/coming-from/*.md"} {
		found, err := filepath.Glob(g)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: pages = %v, %v", g, found, err)
		}
		all = append(all, found...)
	}
	env := tools(t)
	pages := make(chan string)
	var own sync.Mutex // held by a page that has no network namespace
	var wg sync.WaitGroup
	for range 2 {
		w := &pageWorker{env: env, parent: t.TempDir(), own: &own}
		wg.Go(func() {
			for page := range pages {
				t.Run(strings.TrimPrefix(strings.TrimPrefix(page, "../"), "docs/"), func(t *testing.T) { w.read(t, page) })
			}
		})
	}
	for _, p := range all {
		if !strings.HasSuffix(p, ".zh-CN.md") {
			pages <- p
		}
	}
	close(pages)
	wg.Wait()
}

// A pageWorker follows pages one after the other.
type pageWorker struct {
	env    []string
	parent string
	clone  string // in parent; "" before the first page that needs one
	own    sync.Locker
}

// read follows a page.
func (w *pageWorker) read(t *testing.T, page string) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	dir := os.Getenv(pageVariable)
	switch {
	case dir != "" || !hasCommands(string(text)):
	case page == "../README.md", page == "../docs/quick-start.md":
		dir = t.TempDir()
	default:
		dir = w.fresh(t)
	}
	if dir != "" && alone(t, pageVariable+"="+dir) {
		return
	}
	w.own.Lock()
	defer w.own.Unlock()
	record, write := transcriptOf(t, page)
	defer write()
	env := slices.Clone(w.env)
	if page == "../docs/postgresql.md" {
		pgtest.StartAt(t, "127.0.0.1:5432")
		env = append(env, "PGHOST=127.0.0.1", "PGUSER=postgres")
	}
	term := &terminal{dir: dir, env: env, instead: instead, servers: servers, record: record}
	defer term.stop("")
	for _, err := range follow(term, string(text)) {
		t.Errorf("%s: %v", page, err)
	}
}

// fresh returns a clone without the changes of earlier pages.
func (w *pageWorker) fresh(t *testing.T) string {
	t.Helper()
	if w.clone == "" {
		w.clone = clone(t, w.env, w.parent)
		return w.clone
	}
	term := &terminal{dir: w.parent, env: w.env}
	if err := term.run(step{command: "find . -mindepth 1 -maxdepth 1 ! -name weir -exec rm -rf {} + && git -C weir clean -ffdxq && git -C weir reset -q --hard"}); err != nil {
		t.Fatal(err)
	}
	return w.clone
}

// hasCommands reports whether a page has a block that follow runs.
func hasCommands(page string) bool {
	all, err := blocks(page)
	return err != nil || slices.ContainsFunc(all, func(b block) bool { return !slices.Contains(shown, b.kind) })
}

// tools returns an environment with a weir program of this tree.
func tools(t *testing.T) []string {
	t.Helper()
	tree, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(programtest.Weir(t), filepath.Join(bin, "weir")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "overlay"), []byte(overlay), 0o755); err != nil {
		t.Fatal(err)
	}
	return []string{"TREE=" + tree, "OVERLAY=" + filepath.Join(bin, "overlay"), "PATH=" + bin + ":" + os.Getenv("PATH")}
}

// clone makes a clone of this tree in a directory, and commits what is not committed there.
func clone(t *testing.T, env []string, dir string) string {
	t.Helper()
	term := &terminal{dir: dir, env: env}
	for _, command := range []string{
		instead["git clone https://github.com/floodweir/weir"],
		"git -C weir add -A && git -C weir -c user.name=test -c user.email=test@example.com commit -q --allow-empty -m test",
	} {
		if err := term.run(step{command: command}); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "weir")
}

// follow runs the blocks of a page and returns the differences from the page.
func follow(term *terminal, page string) (wrong []error) {
	bs, err := blocks(page)
	if err != nil {
		return []error{err}
	}
	for _, b := range bs {
		term.record.begin(b.section)
		if err := term.do(b); err != nil {
			wrong = append(wrong, err)
		}
	}
	return wrong
}

// shown are the kinds of blocks that are not run.
var shown = []string{"text", "mermaid", "json", "nginx"}

// do runs one block.
func (t *terminal) do(b block) error {
	switch b.kind {
	case "sh", "console":
		steps, err := b.steps()
		for _, s := range steps {
			if err == nil {
				err = t.run(s)
			}
		}
		return err
	case "go":
		return t.program(b)
	case "yaml":
		return t.policies(b)
	}
	if slices.Contains(shown, b.kind) {
		return nil
	}
	return fmt.Errorf("line %d: a block of %q: want sh, console, go, yaml, text, mermaid, json or nginx", b.line, b.kind)
}

var goFile = regexp.MustCompile(`\A// ([a-z]+\.go)\n`)

var fileName = regexp.MustCompile(`\A# ([a-z][a-z._-]*\.yaml)\n`)

// policies writes a policy file under the name in its first line and checks it with weir
// check.
func (t *terminal) policies(b block) error {
	name := "weir.yaml"
	if m := fileName.FindStringSubmatch(b.text); m != nil {
		name = m[1]
	}
	if err := os.WriteFile(filepath.Join(t.dir, name), []byte(b.text), 0o644); err != nil {
		return err
	}
	t.record.file(name)
	command := "weir check "
	if strings.HasSuffix(name, "_test.yaml") {
		command = "weir test "
	}
	return t.run(step{line: b.line, command: command + name, check: true})
}

// around is the code that a fragment assumes.
const around = `package block
import (
%s)
var ctx context.Context
var store weir.Store
var lim *weir.Limiter
var set *policy.Set
var handler http.Handler
var _ = context.Background
func _() {
%s
}
`

// program compiles a Go block, as it is or within a function, and runs it if it is a
// program that ends. A fragment copied from a Go file of the tree is compiled with that file.
// A block with a file name in its first line is only written, for the commands below it.
func (t *terminal) program(b block) error {
	if m := goFile.FindStringSubmatch(b.text); m != nil {
		t.record.file(m[1])
		return os.WriteFile(filepath.Join(t.dir, m[1]), []byte(b.text), 0o644)
	}
	tree := t.dir
	for ; ; tree = filepath.Dir(tree) {
		if _, err := os.Stat(filepath.Join(tree, "go.work")); err == nil {
			break
		}
		if tree == "/" {
			return fmt.Errorf("line %d: a Go block before the clone", b.line)
		}
	}
	text := b.text
	whole := strings.HasPrefix(text, "package ")
	if !whole {
		if sources, err := allSources(); err != nil || strings.Contains(sources, flush(text)) {
			return err
		}
		text = fmt.Sprintf(around, imports(text), text)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "block.go", text, 0); err != nil {
		return fmt.Errorf("line %d: the block is not Go: %w", b.line, err)
	}
	dir, err := os.MkdirTemp(filepath.Join(tree, "e2e"), "block")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(text), 0o644); err != nil {
		return err
	}
	verb := "run"
	switch {
	case !whole:
		verb = "build" // without linking
	case strings.Contains(text, "ListenAndServe"):
		verb = "build -o /dev/null"
	}
	in := *t
	in.dir = tree
	return in.run(step{line: b.line, command: "go " + verb + " ./e2e/" + filepath.Base(dir), check: true})
}

// allSources holds every Go file of the tree, passed through flush.
var allSources = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("git", "-C", "..", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.go").Output()
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for name := range strings.SplitSeq(string(out), "\x00") {
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			continue // deleted, not yet committed
		}
		all.WriteString("\n" + flush(string(text)))
	}
	return all.String(), nil
})

// flush returns Go code without indentation and empty lines.
func flush(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// imports returns the packages that a fragment and its surrounding code may use.
func imports(text string) string {
	var s strings.Builder
	for _, p := range []string{"fmt", "log", "time", "errors", "net/netip",
		"github.com/floodweir/weir/memstore", "github.com/floodweir/weir/redisstore", "github.com/floodweir/weir/httplimit",
		"github.com/floodweir/weir/weirfile", "github.com/floodweir/weir/contrib/rueidis", "github.com/floodweir/weir/contrib/goredis"} {
		if regexp.MustCompile(`\b` + filepath.Base(p) + `\.`).MatchString(text) {
			fmt.Fprintf(&s, "%q\n", p)
		}
	}
	for _, p := range []string{"context", "net/http", "github.com/floodweir/weir", "github.com/floodweir/weir/policy"} {
		fmt.Fprintf(&s, "%q\n", p)
	}
	return s.String()
}
