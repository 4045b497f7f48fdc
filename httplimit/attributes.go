package httplimit

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/internal/replay"
)

// attributes is a request for policies. Values that are expensive to parse are parsed once, when
// a policy needs them.
type attributes struct {
	w       http.ResponseWriter // that the handler of Wrap got
	r       *http.Request
	client  *ClientAddress
	addr    netip.Addr
	located bool
	query   url.Values

	memory *replay.Memory // nil if bodies are not read
	body   replay.Body

	asked   int64 // the bound for which call was read; 0 before
	call    budget.ModelRequest
	callErr error

	limit *BodyLimit // of the body for keys
}

func (a *attributes) Method() string { return a.r.Method }

func (a *attributes) Host() string { return a.r.Host }

func (a *attributes) Path() string { return a.r.URL.EscapedPath() }

func (a *attributes) Header(name string) []string { return a.r.Header[name] }

func (a *attributes) Query(name string) []string {
	if a.query == nil {
		// A target has no fragment, but nginx ends the query at '#'. A server behind it
		// sees the same value for k=1#2 and k=1#3, so both must be one key.
		raw, _, _ := strings.Cut(a.r.URL.RawQuery, "#")
		a.query, _ = url.ParseQuery(raw)
	}
	return a.query[name]
}

func (a *attributes) Cookie(name string) []string {
	var values []string
	for _, c := range a.r.CookiesNamed(name) {
		values = append(values, c.Value)
	}
	return values
}

func (a *attributes) ClientIP() netip.Addr {
	if !a.located {
		a.addr, a.located = a.client.Addr(a.r), true
	}
	return a.addr
}

// maxBodies bounds the bytes of request bodies that a Middleware holds at a time.
const maxBodies = 256 << 20

// callTimeout bounds the time in which the body of a request to a language model arrives.
const callTimeout = 30 * time.Second

// ModelRequest implements [policy.BodyReader]. It reads the body, which the handler then reads again. The error
// wraps budget.ErrUnknownModel, and weir.ErrOverloaded if maxBodies are used up.
func (a *attributes) ModelRequest(max int64) (c budget.ModelRequest, read bool, err error) {
	if a.memory == nil {
		return budget.ModelRequest{}, false, nil
	}
	if a.asked != max {
		a.asked = max
		a.call, a.callErr = a.readCall(max)
	}
	return a.call, true, a.callErr
}

func (a *attributes) readCall(max int64) (budget.ModelRequest, error) {
	text, err := a.body.Read(a.w, a.r, max, callTimeout, a.memory)
	encoding := a.r.Header.Get("Content-Encoding")
	switch {
	case errors.Is(err, replay.ErrFull):
		err = fmt.Errorf("%w: %w", weir.ErrOverloaded, err)
	case err == nil && encoding != "" && encoding != "identity":
		text, err = nil, fmt.Errorf("request body with the encoding %s", fault.Quote(encoding))
	}
	c, parsed := budget.ReadRequest(a.r.URL.Path, text)
	if err = cmp.Or(err, parsed); err != nil {
		err = fmt.Errorf("%w: request body: %w", budget.ErrUnknownModel, err)
	}
	return c, err
}
