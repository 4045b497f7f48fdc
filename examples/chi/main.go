// Command chi is a server of chi routes with limits from weir.yaml beside it. Run it in
// its own directory:
//
//	$ go run .
//	listening on http://127.0.0.1:43210
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/weirfile"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, out io.Writer) error {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	h, err := router("weir.yaml", store)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "listening on http://%s\n", ln.Addr())
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// router is the routes behind the policies of a file.
func router(path string, store weir.Store) (http.Handler, error) {
	f, err := weirfile.Load(path)
	if err != nil {
		return nil, err
	}
	m, err := httplimit.New(store, f.Policies, httplimit.Config{Client: f.Gateway.Client})
	if err != nil {
		return nil, err
	}
	r := chi.NewRouter()
	r.Use(middleware.Recoverer, m.Wrap)
	r.Get("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	r.Post("/login", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") != "secret" {
			http.Error(w, "wrong password", http.StatusUnauthorized)
		}
	})
	r.Get("/reports/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "report", chi.URLParam(r, "id"))
	})
	return r, nil
}
