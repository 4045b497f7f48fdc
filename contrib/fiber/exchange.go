package weirfiber

import (
	"net/http"
	"sync"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"
)

// An exchange is one request at a Middleware, and its [http.ResponseWriter]. The
// Middleware runs on its own goroutine, because a streamed body is sent after the handlers
// of fiber have returned. Only one of the two goroutines runs at a time.
type exchange struct {
	c        fiber.Ctx          // for key functions, until the request is admitted
	response *fasthttp.Response // nil while a stream has it
	ended    sync.Once
	admitted chan struct{} // closed when the request is admitted
	done     chan struct{} // closed when the response is complete
	over     chan struct{} // closed when the Middleware has settled the request
	fault    any           // a panic of the Middleware

	// The response of the Middleware. Once the request is admitted, header is that of
	// fiber's response, read on first use.
	header http.Header
	status int
	text   []byte
	fields http.Header // set before the request was admitted

	w http.ResponseWriter // the arguments of a net/http handler
	r *http.Request
}

func newExchange(c fiber.Ctx, response *fasthttp.Response) *exchange {
	return &exchange{
		c: c, response: response, header: http.Header{}, status: http.StatusOK,
		admitted: make(chan struct{}), done: make(chan struct{}), over: make(chan struct{}),
	}
}

// serve runs the Middleware.
func (x *exchange) serve(h http.Handler, r *http.Request) {
	defer func() {
		x.fault = recover()
		close(x.over)
	}()
	h.ServeHTTP(x, r)
}

// admit lets the handlers of fiber run on their goroutine, and waits for them.
func admit(w http.ResponseWriter, r *http.Request) {
	x := of(w)
	x.w, x.r, x.c = w, r, nil
	x.fields, x.header = x.header, nil
	close(x.admitted)
	<-x.done
}

// of returns the exchange that w is or wraps.
func of(w http.ResponseWriter) *exchange {
	for {
		if x, ok := w.(*exchange); ok {
			return x
		}
		w = w.(interface{ Unwrap() http.ResponseWriter }).Unwrap()
	}
}

// counts reports whether a policy counts by the response.
func (x *exchange) counts() bool { return x.w != http.ResponseWriter(x) }

// Header implements [http.ResponseWriter].
func (x *exchange) Header() http.Header {
	if x.header == nil {
		x.header = http.Header{}
		if x.response == nil {
			return x.header
		}
		for name, value := range x.response.Header.All() {
			x.header.Add(string(name), string(value))
		}
	}
	return x.header
}

// WriteHeader implements [http.ResponseWriter].
func (x *exchange) WriteHeader(status int) { x.status = status }

// Write implements [http.ResponseWriter]. It does not write the body of fiber, which only counts.
func (x *exchange) Write(b []byte) (int, error) {
	if x.fields == nil {
		x.text = append(x.text, b...)
	}
	return len(b), nil
}

// answer writes the response of the Middleware to a request that it did not admit.
func (x *exchange) answer() {
	x.panic()
	x.response.SetStatusCode(x.status)
	x.response.SetBody(x.text)
	set(&x.response.Header, x.header)
}

// setFields sets the fields of an admitted request.
func (x *exchange) setFields() { set(&x.response.Header, x.fields) }

// keepFields sets lost fields again: a handler that returns the response of another server,
// as a proxy does, replaces the whole header.
func (x *exchange) keepFields() {
	for name, values := range x.fields {
		if len(x.response.Header.Peek(name)) == 0 {
			setAll(&x.response.Header, name, values)
		}
	}
}

func set(h *fasthttp.ResponseHeader, from http.Header) {
	for name, values := range from {
		setAll(h, name, values)
	}
}

func setAll(h *fasthttp.ResponseHeader, name string, values []string) {
	h.Del(name)
	for _, v := range values {
		h.Add(name, v)
	}
}

// setStatus records the status of the response.
func (x *exchange) setStatus(status int) {
	if x.counts() {
		x.w.WriteHeader(status)
	}
}

// body records a part of the body.
func (x *exchange) body(b []byte) {
	if x.counts() && len(b) > 0 {
		_, _ = x.w.Write(b)
	}
}

// end makes the Middleware settle the request, and waits for it.
func (x *exchange) end(status int) {
	x.setStatus(status) // unless it is recorded already
	x.leave()
	<-x.over
	x.panic()
}

// leave makes the Middleware settle the request without waiting.
func (x *exchange) leave() { x.ended.Do(func() { close(x.done) }) }

// panic repeats a panic of the Middleware, which comes from a configured function.
func (x *exchange) panic() {
	if x.fault != nil {
		panic(x.fault)
	}
}
