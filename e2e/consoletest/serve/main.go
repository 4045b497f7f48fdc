// Command serve shows the console with the example data of consoletest, and the files of
// the console as they are on the disk:
//
//	go run ./e2e/consoletest/serve -listen 127.0.0.1:9091 -store-down
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"html/template"
	"log"
	"net/http"
	"os"
	"path"
	"slices"

	"github.com/floodweir/weir/e2e/consoletest"
)

func main() {
	var o consoletest.Options
	listen := flag.String("listen", "127.0.0.1:9091", "address")
	dir := flag.String("dir", "cmd/weir/internal/console", "package of the console")
	flag.BoolVar(&o.Empty, "empty", false, "no policies")
	flag.BoolVar(&o.StaleNode, "stale", false, "a stale node")
	flag.BoolVar(&o.StoreDown, "store-down", false, "a store that is unavailable")
	flag.BoolVar(&o.Conflict, "conflict", false, "a conflict at the first apply")
	flag.BoolVar(&o.Hostile, "hostile", false, "hostile texts")
	flag.BoolVar(&o.Quiet, "quiet", false, "no traffic")
	flag.IntVar(&o.Policies, "policies", 0, "number of policies")
	flag.StringVar(&o.Role, "role", "", "read or operate")
	flag.StringVar(&o.Token, "token", "", "token of sign-in")
	flag.Parse()
	pages := http.StripPrefix("/console", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		w.Header().Set("Cache-Control", "no-store")
		name := path.Clean(r.URL.Path)
		if path.Ext(name) != "" {
			http.ServeFile(w, r, path.Join(*dir, "static", name))
		} else if err := writePage(w, *dir, path.Base(name)); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	log.SetOutput(os.Stdout)
	log.Printf("console at http://%s/console/overview", *listen)
	log.Fatal(http.ListenAndServe(*listen, consoletest.New(o, pages)))
}

// writePage writes a page of the console, as package console does.
func writePage(w http.ResponseWriter, dir, name string) error {
	var pages []map[string]any
	text, err := os.ReadFile(path.Join(dir, "pages.json"))
	if err == nil {
		err = json.Unmarshal(text, &pages)
	}
	if err != nil {
		return err
	}
	t, err := template.ParseFiles(path.Join(dir, "page.html"))
	if err != nil {
		return err
	}
	i := slices.IndexFunc(pages, func(p map[string]any) bool { return p["Name"] == name })
	if i < 0 {
		return fmt.Errorf("got page %q, want one of pages.json", name)
	}
	return t.Execute(w, pages[i])
}
