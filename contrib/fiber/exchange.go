package weirfiber

import (
	"net/http"
	"sync"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"
)

// An exchange is one request at a Middleware, for which it is an [http.ResponseWriter].
// The Middleware has a goroutine of its own, since what it holds may last longer than the
// handlers of fiber: a body that is streamed is sent after they have returned. The two
// take turns: one waits while the other works.
type exchange struct {
	c        fiber.Ctx          // for key functions, until the request is admitted
	response *fasthttp.Response // nil while a stream has it
	ended    sync.Once
	admitted chan struct{} // closed when the request is
	done     chan struct{} // closed when it is answered
	over     chan struct{} // closed when the Middleware has settled it
	fault    any           // what the Middleware panicked with

	// What the Middleware wrote. Once the request is admitted, header is that of the
	// response, read when it is asked for.
	header http.Header
	status int
	text   []byte
	fields http.Header // that were set before the request was admitted

	w http.ResponseWriter // what a handler of net/http would get
	r *http.Request       // and its request
}

func newExchange(c fiber.Ctx, response *fasthttp.Response) *exchange {
	return &exchange{
		c: c, response: response, header: http.Header{}, status: http.StatusOK,
		admitted: make(chan struct{}), done: make(chan struct{}), over: make(chan struct{}),
	}
}

// serve is the goroutine of the Middleware.
func (x *exchange) serve(h http.Handler, r *http.Request) {
	defer func() {
		x.fault = recover()
		close(x.over)
	}()
	h.ServeHTTP(x, r)
}

// admit is what is behind the Middleware: the handlers of fiber, on another goroutine.
func admit(w http.ResponseWriter, r *http.Request) {
	x := of(w)
	x.w, x.r, x.c = w, r, nil
	x.fields, x.header = x.header, nil
	close(x.admitted)
	<-x.done
}

// of is the exchange that w is, or was made of.
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

// Write implements [http.ResponseWriter]. What fiber answers is only told.
func (x *exchange) Write(b []byte) (int, error) {
	if x.fields == nil {
		x.text = append(x.text, b...)
	}
	return len(b), nil
}

// answer is what the Middleware answered to a request that it did not admit.
func (x *exchange) answer() {
	x.panic()
	x.response.SetStatusCode(x.status)
	x.response.SetBody(x.text)
	set(&x.response.Header, x.header)
}

// setFields sets the fields of a request that was admitted.
func (x *exchange) setFields() { set(&x.response.Header, x.fields) }

// keepFields sets those again that are lost: a handler that gives a response of another
// server, as a proxy does, replaces the whole header.
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

// tell says the status of the answer.
func (x *exchange) tell(status int) {
	if x.counts() {
		x.w.WriteHeader(status)
	}
}

// body says a part of the body.
func (x *exchange) body(b []byte) {
	if x.counts() && len(b) > 0 {
		_, _ = x.w.Write(b)
	}
}

// end lets the Middleware settle the request, and waits for it.
func (x *exchange) end(status int) {
	x.tell(status) // if it was not told before
	x.leave()
	<-x.over
	x.panic()
}

// leave lets the Middleware settle the request, and does not wait.
func (x *exchange) leave() { x.ended.Do(func() { close(x.done) }) }

// panic passes on what the Middleware panicked with, which is from a function that it
// was configured with.
func (x *exchange) panic() {
	if x.fault != nil {
		panic(x.fault)
	}
}
