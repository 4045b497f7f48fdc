package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
)

const (
	// MaxBody is the largest request body in bytes.
	MaxBody = 1 << 20

	// bodyTimeout is how long a request body may take.
	bodyTimeout = 10 * time.Second
)

// Config describes an API. Store is required.
type Config struct {
	// Store decides.
	Store weir.Store

	// Policies are those that a question may name; none if nil.
	Policies *policy.Set

	// Fields are the response fields to send; httplimit.DefaultFields if zero.
	Fields httplimit.Fields

	// Ready is asked by /readyz; always ready if nil.
	Ready func(context.Context) []Check

	// Log is where questions that the store could not decide are reported; nowhere
	// if nil.
	Log *slog.Logger
}

// An API is an http.Handler, safe for concurrent use.
type API struct {
	store    weir.Store
	policies map[string]*named
	ready    func(context.Context) []Check
	fields   httplimit.Fields
	log      *slog.Logger
	handler  http.Handler
}

// New makes an API.
func New(c Config) (*API, error) {
	if c.Store == nil {
		return nil, errors.New("httpapi: store: want a store, got nil")
	}
	a := &API{store: c.Store, policies: map[string]*named{}, ready: c.Ready, fields: c.Fields, log: c.Log}
	if a.ready == nil {
		a.ready = noChecks
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if c.Policies != nil {
		for _, p := range c.Policies.Policies() {
			n, err := newNamed(p)
			if err != nil {
				return nil, fmt.Errorf("httpapi: policy %s: %w", p.Name(), err)
			}
			a.policies[p.Name()] = n
		}
	}
	mux := http.NewServeMux()
	mux.Handle("POST /v1/take", a.verb(weir.Take))
	mux.Handle("POST /v1/peek", a.verb(weir.Peek))
	mux.Handle("POST /v1/return", a.verb(weir.Return))
	mux.Handle("POST /v1/reset", a.verb(weir.Reset))
	for _, verb := range []string{"take", "peek", "return", "reset"} {
		mux.HandleFunc("/v1/"+verb, onlyPost)
	}
	mux.HandleFunc("GET /healthz", a.healthz)
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.HandleFunc("/", unknown)
	// A page in a browser could otherwise spend the limits of whoever looks at it.
	protect := http.NewCrossOriginProtection()
	protect.SetDenyHandler(http.HandlerFunc(crossOrigin))
	a.handler = noPages(protect.Handler(mux))
	return a, nil
}

// noPages refuses pages whose own host this is said to be: nobody serves pages here,
// so the name is one that was pointed at this address after the page was read (DNS
// rebinding). An address and localhost cannot be pointed elsewhere.
func noPages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && (r.Header["Origin"] != nil || r.Header["Sec-Fetch-Site"] != nil) && !fixed(r.Host) {
			crossOrigin(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// fixed reports whether a host is an address or localhost.
func fixed(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || strings.EqualFold(strings.TrimSuffix(host, "."), "localhost")
}

// ServeHTTP implements [http.Handler].
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

func unknown(w http.ResponseWriter, r *http.Request) {
	problem.Write(w, problem.Problem{Status: http.StatusNotFound,
		Detail: "known are POST /v1/take, /v1/peek, /v1/return, /v1/reset, and GET /healthz, /readyz"})
}

func onlyPost(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Allow", http.MethodPost)
	problem.Write(w, problem.Problem{Status: http.StatusMethodNotAllowed, Detail: "want POST with a JSON object"})
}

func crossOrigin(w http.ResponseWriter, r *http.Request) {
	problem.Write(w, problem.Problem{Status: http.StatusForbidden, Detail: "a web page may not ask"})
}

// verb is the handler of one verb.
func (a *API) verb(v weir.Verb) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn := http.NewResponseController(w)
		conn.SetReadDeadline(time.Now().Add(bodyTimeout)) // a connection that cannot have one has its own bound
		data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
		if err != nil {
			badBody(w, err)
			return
		}
		conn.SetReadDeadline(time.Time{})
		q, err := parse(data)
		if err == nil {
			var rs []weir.Request
			if rs, err = a.requests(v, q); err == nil {
				a.decide(w, r, v, q, rs)
				return
			}
		}
		var f *fault
		if !errors.As(err, &f) {
			f = &fault{"body", "", err.Error()}
		}
		problem.Write(w, problem.Problem{Status: http.StatusBadRequest, Detail: f.Error(),
			Field: f.field, Value: f.value, Expected: f.expected})
	})
}

func badBody(w http.ResponseWriter, err error) {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		problem.Write(w, problem.Problem{Status: http.StatusRequestEntityTooLarge, Detail: "the request body is too large",
			Field: "body", Value: "more than " + strconv.Itoa(MaxBody) + " bytes", Expected: "at most " + strconv.Itoa(MaxBody) + " bytes"})
		return
	}
	problem.Write(w, problem.Problem{Status: http.StatusRequestTimeout, Detail: "the request body could not be read"})
}

// requests are what the store has to decide together.
func (a *API) requests(v weir.Verb, q *question) ([]weir.Request, error) {
	if v == weir.Reset && q.hasN {
		return nil, refuse("n", strconv.AppendInt(nil, q.n, 10), "no n: a reset forgets the key")
	}
	var rs []weir.Request
	if q.policy == "" {
		for _, l := range q.limits {
			rs = append(rs, weir.Request{Key: q.key[0], Limit: l})
		}
	} else {
		p := a.policies[q.policy]
		if p == nil {
			return nil, refuse("policy", []byte(strconv.Quote(q.policy)), "the name of a policy of the configuration")
		}
		var err error
		if rs, err = p.requests(q.key); err != nil {
			return nil, err
		}
		if !q.hasN && v != weir.Reset {
			q.n = p.cost
		}
	}
	for i := range rs {
		rs[i].Verb = v
		if rs[i].N = q.n; v == weir.Reset {
			rs[i].N = 0
		}
	}
	return rs, nil
}

func (a *API) decide(w http.ResponseWriter, r *http.Request, v weir.Verb, q *question, rs []weir.Request) {
	ds := make([]weir.Decision, len(rs))
	var err error
	if len(rs) == 1 {
		ds[0], err = a.store.Do(r.Context(), rs[0])
	} else {
		_, err = a.store.DoAll(r.Context(), rs, ds)
	}
	switch {
	case err == nil:
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "no-store")
		a.fields.Set(h, items(q.policy, ds)...)
		w.Write(Answer(q.policy, ds))
	case errors.Is(err, weir.ErrInvalid):
		problem.Write(w, problem.Problem{Status: http.StatusBadRequest, Detail: err.Error()})
	default:
		if r.Context().Err() == nil { // or the client left, which is no fault of the store
			a.log.LogAttrs(r.Context(), slog.LevelError, "no decision", slog.String("verb", v.String()), slog.Any("error", err))
		}
		w.Header().Set("Retry-After", "1")
		problem.Write(w, problem.Problem{Status: http.StatusServiceUnavailable, Detail: "the store could not decide"})
	}
}
