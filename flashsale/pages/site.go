package pages

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

//go:embed static html text
var embedded embed.FS

// page is one address of a site: its pattern for http.ServeMux, its script and the key of its
// title.
type page struct {
	pattern, script, title string
}

// pagesOf returns the pages of a site, in the order of the links in its header.
func pagesOf(site string) []page {
	if site == "shop" {
		return []page{
			{"/{$}", "list.js", "shop.list.title"},
			{"/sales/{sale}", "sale.js", "shop.sale.title"},
			{"/c/{campaign}", "campaign.js", "shop.campaign.title"},
			{"/orders", "orders.js", "shop.orders.title"},
		}
	}
	return []page{
		{"/{$}", "home.js", "office.home.title"},
		{"/sales/new", "draft.js", "office.new.title"},
		{"/sales/{sale}", "board.js", "office.sale.title"},
		{"/webhooks", "webhooks.js", "office.webhooks.title"},
		{"/accounts", "accounts.js", "office.accounts.title"},
	}
}

// file is a page in one language, a script, a style or a picture.
type file struct {
	kind, etag string
	body       []byte
}

func newFile(name string, body []byte) file {
	kinds := map[string]string{
		".html": "text/html; charset=utf-8",
		".js":   "text/javascript; charset=utf-8",
		".css":  "text/css; charset=utf-8",
		".svg":  "image/svg+xml",
		".txt":  "text/plain; charset=utf-8",
	}
	sum := sha256.Sum256(body)
	return file{kind: kinds[path.Ext(name)], etag: `"` + hex.EncodeToString(sum[:12]) + `"`, body: body}
}

func (f file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("ETag", f.etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.body))
}

// words returns the texts in one language, which the caller must not change.
func words(lang string) map[string]string { return texts()[lang] }

// texts returns the texts by language. Every page uses them, so they are read once.
var texts = sync.OnceValue(func() map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, lang := range languages() {
		text, err := embedded.ReadFile("text/" + lang + ".json")
		words := map[string]string{}
		if err == nil {
			err = json.Unmarshal(text, &words)
		}
		if err != nil {
			panic(fmt.Sprintf("pages: text/%s.json: %v", lang, err))
		}
		all[lang] = words
	}
	return all
})

// static returns the files of a site, and the hash in their addresses. Scripts import each
// other by their bare names, so all files share one hash.
func static(site string) (files map[string]file, hash string) {
	files = map[string]file{}
	dirs := []string{"static/common", "static/" + site}
	if site == "office" {
		dirs = append(dirs, "static/lib")
	}
	for _, dir := range dirs {
		entries, err := fs.ReadDir(embedded, dir)
		if err != nil {
			panic(fmt.Sprintf("pages: %s: %v", dir, err))
		}
		for _, e := range entries {
			body, err := embedded.ReadFile(dir + "/" + e.Name())
			if err != nil {
				panic(fmt.Sprintf("pages: %s/%s: %v", dir, e.Name(), err))
			}
			files[e.Name()] = newFile(e.Name(), body)
		}
	}
	for _, lang := range languages() {
		text, err := json.Marshal(words(lang))
		if err != nil {
			panic(fmt.Sprintf("pages: text/%s.json: %v", lang, err))
		}
		files["text-"+lang+".js"] = newFile(".js", slices.Concat([]byte("export default "), text, []byte(";\n")))
	}
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(sum, "%s %s\n", name, files[name].etag)
	}
	return files, hex.EncodeToString(sum.Sum(nil)[:8])
}

// site serves the pages of one listener.
type site struct {
	mux      *http.ServeMux
	fallback string // the default language
}

func newSite(c Config, name string) http.Handler {
	switch c.Lang {
	case "":
		c.Lang = "en"
	case "en", "zh":
	default:
		panic(fmt.Sprintf("pages: Lang %q, expected en or zh", c.Lang))
	}
	if err := c.Captcha.Check(); err != nil {
		panic("pages: " + err.Error())
	}
	s := &site{mux: http.NewServeMux(), fallback: c.Lang}
	files, hash := static(name)
	s.mux.HandleFunc("GET /static/{hash}/{name}", func(w http.ResponseWriter, r *http.Request) {
		f, ok := files[r.PathValue("name")]
		if !ok || r.PathValue("hash") != hash {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		f.serve(w, r)
	})
	base := template.Must(template.ParseFS(embedded, "html/*.html"))
	scripts := slices.DeleteFunc(slices.Sorted(maps.Keys(files)), func(name string) bool {
		return path.Ext(name) != ".js"
	})
	for _, p := range pagesOf(name) {
		s.mux.HandleFunc("GET "+p.pattern, s.page(base, c, name, hash, p, scripts, http.StatusOK))
	}
	missing := page{title: "missing.title"}
	s.mux.HandleFunc("GET /", s.page(base, c, name, hash, missing, nil, http.StatusNotFound))
	return s
}

// ServeHTTP serves the page or the file of a path.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// page renders p in every language and returns its handler.
func (s *site) page(base *template.Template, c Config, name, hash string, p page, scripts []string, status int) http.HandlerFunc {
	made := map[string]file{}
	policy, referrer := Policy, "same-origin"
	if p.script != "sale.js" {
		c.Captcha = Captcha{}
	} else if c.Captcha.Script != "" {
		policy, referrer = c.Captcha.policy(), "strict-origin-when-cross-origin" // providers check the host
	}
	for _, lang := range languages() {
		var preload []string
		if p.script != "" {
			preload = []string{"api.js", "dom.js", "text.js", "time.js", "text-" + lang + ".js"}
		}
		var b bytes.Buffer
		if err := base.ExecuteTemplate(&b, "page.html", map[string]any{
			"Lang": lang, "Site": name, "Mock": c.Mock, "Captcha": c.Captcha, "Static": "/static/" + hash + "/", "Script": p.script,
			"Preload": slices.DeleteFunc(preload, func(f string) bool { return !slices.Contains(scripts, f) }),
			"Charts":  p.script == "board.js",
			"Title":   p.title, "Missing": status == http.StatusNotFound, "T": words(lang),
		}); err != nil {
			panic(fmt.Sprintf("pages: %s: %v", p.pattern, err))
		}
		made[lang] = newFile(".html", b.Bytes())
	}
	var lost http.HandlerFunc
	if strings.Contains(p.pattern, "{") && !strings.Contains(p.pattern, "{$}") {
		lost = s.page(base, c, name, hash, page{title: "missing.title"}, nil, http.StatusNotFound)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if lost != nil && !isSale(r.PathValue("sale")) && !sale.IsCampaign(r.PathValue("campaign")) {
			lost(w, r)
			return
		}
		lang := s.language(w, r)
		h := w.Header()
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Language", lang)
		h.Set("Referrer-Policy", referrer)
		h.Add("Vary", "Accept-Language, Cookie")
		h.Set("Content-Security-Policy", policy)
		if f := made[lang]; status == http.StatusOK {
			f.serve(w, r)
		} else {
			h.Set("Content-Type", f.kind)
			h.Set("X-Content-Type-Options", "nosniff")
			w.WriteHeader(status)
			if r.Method != http.MethodHead {
				_, _ = w.Write(f.body) // the client may have disconnected
			}
		}
	}
}

// isSale reports whether id can be the ID of a sale.
func isSale(id string) bool {
	return len(id) <= 64 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789") == "" && id != ""
}
