// Command serve shows the console with the example data of consoletest, and the files of
// the console as they are on the disk:
//
//	go run ./e2e/consoletest/serve -listen 127.0.0.1:9091 -store-down
package main

import (
	"flag"
	"log"
	"net/http"
	"os"
	"path"

	"github.com/floodweir/weir/e2e/consoletest"
)

func main() {
	var o consoletest.Options
	listen := flag.String("listen", "127.0.0.1:9091", "address")
	dir := flag.String("dir", "cmd/weir/internal/console/static", "files of the console")
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
		name := path.Join(*dir, path.Clean(r.URL.Path))
		if path.Ext(name) == "" {
			name += ".html"
		}
		http.ServeFile(w, r, name)
	}))
	log.SetOutput(os.Stdout)
	log.Printf("console at http://%s/console/overview", *listen)
	log.Fatal(http.ListenAndServe(*listen, consoletest.New(o, pages)))
}
