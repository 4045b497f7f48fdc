package weirfiber

import (
	"net/http"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"
)

// Middleware returns m as a handler of a fiber app, group or route. It is safe for concurrent
// use. If it is used in several places, they share their limits.
func Middleware(m *httplimit.Middleware) fiber.Handler { return handler(m.Wrap) }

// Protect returns [httplimit.Protect] as a handler. It belongs in front of the limits.
func Protect(c httplimit.ProtectConfig) fiber.Handler { return handler(httplimit.Protect(c)) }

func handler(wrap func(http.Handler) http.Handler) fiber.Handler {
	h := wrap(http.HandlerFunc(admit))
	return func(c fiber.Ctx) error {
		r, err := request(c)
		if err != nil {
			leaveBody(c)
			return fiber.ErrBadRequest
		}
		x := newExchange(c, &c.RequestCtx().Response)
		go x.serve(h, r)
		select {
		case <-x.admitted:
		case <-x.over:
			leaveBody(c)
			x.answer()
			return nil
		}
		return next(c, x, r)
	}
}

// leaveBody closes the connection after the response if the streamed body of the request
// was not read. fasthttp would read the rest of it as the next request.
func leaveBody(c fiber.Ctx) {
	if c.Request().IsBodyStream() {
		c.Response().SetConnectionClose()
	}
}

// next runs the rest of the chain for an admitted request.
func next(c fiber.Ctx, x *exchange, r *http.Request) (err error) {
	status := http.StatusInternalServerError // if a handler panics
	ends := true
	defer func() {
		if ends {
			x.end(status)
		}
	}()
	x.setFields()
	if h := &c.Request().Header; x.r != r {
		replace(h, r.Header, x.r.Header)
		defer func() {
			if timedOut(c) == nil {
				replace(h, x.r.Header, r.Header)
			}
		}()
	}
	if inner := x.r.Context(); inner != r.Context() { // that of Protect
		c.SetContext(inner)
		defer func() {
			if timedOut(c) == nil && c.Context() == inner {
				c.SetContext(r.Context()) // a context that a handler set stays
			}
		}()
	}
	err = c.Next()
	if late := timedOut(c); late != nil {
		x.response = late // a handler may still write to the other response
		status = late.StatusCode()
		x.setStatus(status)
		x.body(late.Body())
		return err
	}
	if err != nil && x.counts() {
		// The response of the ErrorHandler counts.
		if err = c.App().ErrorHandler(c, err); err != nil {
			err = c.SendStatus(http.StatusInternalServerError)
		}
	}
	x.keepFields()
	status = c.Response().StatusCode()
	if c.Response().IsBodyStream() {
		x.follow(status)
		ends = false
		return err
	}
	x.setStatus(status)
	x.body(c.Response().Body())
	return err
}

// timedOut returns the response to a request whose handler timed out, or nil. The handler
// may still use the rest of the request.
func timedOut(c fiber.Ctx) *fasthttp.Response { return c.RequestCtx().LastTimeoutErrorResponse() }

// Limit returns a handler that limits the requests of each key: see [httplimit.Limit].
//
//	app.Use(weirfiber.Limit(store, "10/s burst 20", weirfiber.ByIP))
func Limit(store weir.Store, limit string, key func(fiber.Ctx) string) fiber.Handler {
	return Middleware(httplimit.MustKeyed(store, limit, KeyFunc(key)))
}

// LimitFunc returns a middleware with a limit for each key from code: see [httplimit.LimitFunc].
func LimitFunc(store weir.Store, limit weir.LimitFunc, key func(fiber.Ctx) string) fiber.Handler {
	return Middleware(httplimit.MustKeyedFunc(store, limit, KeyFunc(key)))
}

// KeyFunc returns a part of a policy's key that key computes, for example from the user that a
// middleware in front has set. See [httplimit.KeyFunc].
func KeyFunc(key func(fiber.Ctx) string) policy.KeyPart {
	return httplimit.WriterKeyFunc(func(w http.ResponseWriter) string { return key(w.(*exchange).c) })
}

// ByIP is a key function that returns the address of the peer: see [httplimit.ByIP].
func ByIP(c fiber.Ctx) string {
	return httplimit.ByIP(&http.Request{RemoteAddr: c.RequestCtx().RemoteAddr().String()})
}
