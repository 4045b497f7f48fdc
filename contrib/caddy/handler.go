package weircaddy

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile"
)

// A Handler limits requests by the policies of a file. Its exported fields are its JSON
// configuration.
type Handler struct {
	// File is the path of the policy file. Required.
	File string `json:"file"`

	// Store is "memory" or the URL of a Redis; default: the store of the file.
	Store string `json:"store,omitempty"`

	key      storeKey
	shared   *shared // nil before Provision
	policies *policy.Set
	limits   *httplimit.Middleware
}

var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
	_ caddyfile.Unmarshaler       = (*Handler)(nil)
)

// Provision reads the file and opens its store. An error has the line of each fault of the
// file.
func (h *Handler) Provision(ctx caddy.Context) error {
	if h.File == "" {
		return errors.New("file: got nothing, want the path of a policy file")
	}
	f, err := weirfile.Load(h.File)
	if err != nil {
		return err
	}
	log := ctx.Slogger()
	for _, note := range f.Notes {
		log.Warn(note)
	}
	h.key = keyOf(cmp.Or(h.Store, f.Store, memory), f.Failover)
	if h.shared, err = acquire(h.key, log); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	h.policies = f.Policies.WithPrevious(h.shared.policies(h.File))
	h.limits, err = httplimit.New(h.shared.main, h.policies, httplimit.Config{
		Client: f.Gateway.Client, Fields: f.Gateway.Fields, RetryJitter: f.Gateway.RetryJitter, Body: f.Gateway.KeyBody,
		Options: enforce.Options{Local: h.shared.local},
	})
	if err != nil {
		return err
	}
	h.shared.add(h)
	return nil
}

// Cleanup releases the store. Caddy calls it when no request uses h.
func (h *Handler) Cleanup() error {
	if h.shared == nil {
		return nil
	}
	h.shared.remove(h)
	return release(h.key)
}

// ServeHTTP calls next for admitted requests.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	var failed error
	out := &output{ResponseWriter: w}
	h.limits.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if failed = next.ServeHTTP(w, r); failed != nil {
			out.muted = true
			w.WriteHeader(status(failed))
		}
	})).ServeHTTP(out, r)
	return failed
}

// status returns the status of the response that Caddy sends after an error of a handler.
func status(err error) int {
	var failed caddyhttp.HandlerError
	if errors.As(err, &failed) && failed.StatusCode != 0 {
		return failed.StatusCode
	}
	return http.StatusInternalServerError
}

// An output is the ResponseWriter below the limits. After an error of a handler it is muted:
// policies count the status of the error, and Caddy sends the response later.
type output struct {
	http.ResponseWriter
	muted bool
}

// WriteHeader sends the status, unless o is muted.
func (o *output) WriteHeader(status int) {
	if !o.muted {
		o.ResponseWriter.WriteHeader(status)
	}
}

// Flush implements http.Flusher. The writers of Caddy have it only after Unwrap.
func (o *output) Flush() { _ = http.NewResponseController(o.ResponseWriter).Flush() }

// Hijack implements http.Hijacker.
func (o *output) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(o.ResponseWriter).Hijack()
}

// Unwrap returns the ResponseWriter of Caddy, for http.ResponseController.
func (o *output) Unwrap() http.ResponseWriter { return o.ResponseWriter }
