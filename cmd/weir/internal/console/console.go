package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/problem"
)

// Path is the path below which the console is served.
const Path = "/console/"

//go:embed static page.html pages.json
var embedded embed.FS

const policyOfContent = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// kinds has the content types of files by their extension; pages have none.
var kinds = map[string]string{
	"": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".json": "application/json", ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8",
}

// A file is one file of the console, as it is and compressed.
type file struct {
	kind, tag string
	plain     []byte
	packed    func() []byte // compresses once
}

// A page is a row of pages.json.
type page struct {
	Name, Title string
	API         []string // the paths of its data
	Charts      bool
}

// New returns the handler of the paths below Path, safe for concurrent use.
func New() http.Handler {
	texts, err := contents()
	if err != nil { // embedded files are always readable
		panic(err)
	}
	files := map[string]file{}
	for name, text := range texts {
		name = strings.TrimSuffix(name, ".html")
		files[name] = newFile(path.Ext(name), text)
	}
	return handler(files)
}

// contents returns the files of the console by their path below Path; a page ends in .html.
func contents() (map[string][]byte, error) {
	all := map[string][]byte{}
	err := fs.WalkDir(embedded, "static", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all[strings.TrimPrefix(name, "static/")], err = embedded.ReadFile(name)
		}
		return err
	})
	var pages []page
	text, readErr := embedded.ReadFile("pages.json")
	frame, frameErr := embedded.ReadFile("page.html")
	if err = errors.Join(err, readErr, frameErr); err == nil {
		err = json.Unmarshal(text, &pages)
	}
	for _, p := range pages {
		all[p.Name+".html"] = p.render(string(frame))
	}
	return all, err
}

// render executes the template page.html, of which it knows the actions that are there. It uses no
// template package: with one, the linker keeps all methods of the program.
func (p *page) render(frame string) []byte {
	links := ""
	for _, path := range p.API {
		links += fmt.Sprintf(` <a href="%s">%[1]s</a>`, html.EscapeString(path))
	}
	values := strings.NewReplacer("{{.Name}}", html.EscapeString(p.Name), "{{.Title}}", html.EscapeString(p.Title),
		`{{range .API}} <a href="{{.}}">{{.}}</a>{{end}}`, links)
	var b bytes.Buffer
	skip := false
	for line := range strings.Lines(frame) {
		switch strings.TrimSpace(line) {
		case "{{- if .Charts}}":
			skip = !p.Charts
		case "{{- end}}":
			skip = false
		default:
			if !skip {
				_, _ = values.WriteString(&b, line) // a bytes.Buffer takes everything
			}
		}
	}
	return b.Bytes()
}

func newFile(ext string, text []byte) file {
	sum := sha256.Sum256(text)
	return file{
		kind: kinds[ext], tag: `"` + hex.EncodeToString(sum[:12]) + `"`, plain: text,
		packed: sync.OnceValue(func() []byte { return pack(text) }),
	}
}

func pack(text []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is valid
	_, _ = w.Write(text)                                  // a bytes.Buffer takes everything
	_ = w.Close()
	return b.Bytes()
}

type handler map[string]file

// ServeHTTP implements [http.Handler].
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, Path)
	f, ok := h[name]
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		problem.Write(w, problem.Problem{Status: http.StatusMethodNotAllowed, Detail: "want GET"})
		return
	case name == "":
		http.Redirect(w, r, Path+"overview", http.StatusFound)
		return
	case !ok:
		problem.Write(w, problem.Problem{Status: http.StatusNotFound, Detail: "GET " + Path + " shows the console"})
		return
	}
	head := w.Header()
	head.Set("Content-Security-Policy", policyOfContent)
	head.Set("Content-Type", f.kind)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Vary", "Accept-Encoding")
	text, tag := f.plain, f.tag
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		head.Set("Content-Encoding", "gzip")
		text, tag = f.packed(), strings.TrimSuffix(f.tag, `"`)+`-gz"`
	}
	// Browsers ask each time whether a file has changed; unchanged files are not sent again.
	head.Set("Cache-Control", "no-cache")
	head.Set("Etag", tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}
