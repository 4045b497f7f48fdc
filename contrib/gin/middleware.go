package weirgin

import (
	"net/http"

	"github.com/floodweir/weir/httplimit"
	"github.com/gin-gonic/gin"
)

// Middleware is m for a gin engine, group or route. It is safe for concurrent use, and
// may be used in several places: they then share their limits.
func Middleware(m *httplimit.Middleware) gin.HandlerFunc {
	return func(c *gin.Context) {
		admitted := false
		m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			admitted = true
			next(c, w, r)
		})).ServeHTTP(c.Writer, c.Request)
		if !admitted {
			c.Abort()
		}
	}
}

// next runs the rest of the chain with w and r, which are those of c unless a policy
// counts by the response.
func next(c *gin.Context, w http.ResponseWriter, r *http.Request) {
	if own := c.Request; own != r {
		c.Request = r
		defer func() {
			if c.Request == r {
				c.Request = own // but one that a handler made stays
			}
		}()
	}
	if _, plain := w.(gin.ResponseWriter); plain {
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
