package weirgin

import (
	"net/http"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
	"github.com/gin-gonic/gin"
)

// Middleware returns m as a handler of a gin engine, group or route. It is safe for concurrent
// use. If it is used in several places, they share their limits.
func Middleware(m *httplimit.Middleware) gin.HandlerFunc { return handler(m.Wrap) }

// Protect returns [httplimit.Protect] as a handler. It belongs in front of the limits.
func Protect(c httplimit.ProtectConfig) gin.HandlerFunc { return handler(httplimit.Protect(c)) }

func handler(wrap func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		admitted := false
		wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			admitted = true
			next(c, w, r)
		})).ServeHTTP(contextWriter{c.Writer, c}, c.Request)
		if !admitted {
			c.Abort()
		}
	}
}

// next runs the rest of the chain with w and r, which differ from those of c if a policy counts
// by the response.
func next(c *gin.Context, w http.ResponseWriter, r *http.Request) {
	if own := c.Request; own != r {
		c.Request = r
		defer func() {
			if c.Request == r {
				c.Request = own // a request that a handler set stays
			}
		}()
	}
	if _, plain := w.(contextWriter); plain {
		c.Next()
		return
	}
	own := c.Writer
	counted := &writer{ResponseWriter: own, counted: w}
	c.Writer = counted
	defer func() { c.Writer = own }()
	c.Next()
	counted.begin() // gin sends a status without a body after the chain
}

// A contextWriter carries the context of gin to key functions.
type contextWriter struct {
	gin.ResponseWriter
	c *gin.Context
}

// Limit returns a handler that limits the requests of each key: see [httplimit.Limit].
//
//	r.Use(weirgin.Limit(store, "10/s burst 20", weirgin.ByIP))
func Limit(store weir.Store, limit string, key func(*gin.Context) string) gin.HandlerFunc {
	return Middleware(httplimit.MustKeyed(store, limit, KeyFunc(key)))
}

// LimitFunc returns a middleware with a limit for each key from code: see [httplimit.LimitFunc].
func LimitFunc(store weir.Store, limit weir.LimitFunc, key func(*gin.Context) string) gin.HandlerFunc {
	return Middleware(httplimit.MustKeyedFunc(store, limit, KeyFunc(key)))
}

// KeyFunc returns a part of a policy's key that key computes, for example from the user that a
// middleware in front has set. See [httplimit.KeyFunc].
func KeyFunc(key func(*gin.Context) string) policy.KeyPart {
	return httplimit.WriterKeyFunc(func(w http.ResponseWriter) string { return key(w.(contextWriter).c) })
}

// ByIP is a key function that returns the address of the peer: see [httplimit.ByIP].
func ByIP(c *gin.Context) string { return httplimit.ByIP(c.Request) }
