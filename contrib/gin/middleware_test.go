package weirgin_test

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	weirgin "github.com/floodweir/weir/contrib/gin"
	"github.com/floodweir/weir/httplimit/limittest"
	"github.com/gin-gonic/gin"

	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
)

func failures(limit string) policy.Config {
	return policy.Config{Name: "p", Limits: limittest.Limits(limit), Count: policy.CountFailures}
}

func TestFailures(t *testing.T) {
	quiet := gin.RecoveryWithWriter(io.Discard)
	inner := func(m *httplimit.Middleware) []gin.HandlerFunc {
		return []gin.HandlerFunc{weirgin.Middleware(m), quiet}
	}
	outer := func(m *httplimit.Middleware) []gin.HandlerFunc {
		return []gin.HandlerFunc{quiet, weirgin.Middleware(m)}
	}
	for _, tc := range []struct {
		name    string
		chain   func(*httplimit.Middleware) []gin.HandlerFunc
		handler gin.HandlerFunc
		status  int
		left    string
	}{
		{"fine", inner, func(c *gin.Context) { c.String(200, "x") }, 200, "4"},
		{"a status alone", inner, func(c *gin.Context) { c.Status(403) }, 403, "3"},
		{"a status that changes", inner, func(c *gin.Context) { c.Status(500); c.String(200, "x") }, 200, "4"},
		{"json", inner, func(c *gin.Context) { c.JSON(500, gin.H{}) }, 500, "3"},
		{"aborted", inner, func(c *gin.Context) { c.AbortWithStatus(401) }, 401, "3"},
		{"aborted with an error", inner, func(c *gin.Context) { _ = c.AbortWithError(401, errors.New("no")) }, 401, "3"},
		{"panic, recovered inside", inner, func(*gin.Context) { panic("no") }, 500, "3"},
		{"panic, recovered outside", outer, func(*gin.Context) { panic("no") }, 500, "3"},
		{"panic after a status", outer, func(c *gin.Context) { c.Status(201); panic("no") }, 500, "3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			store, _ := limittest.Store(t)
			m := limittest.Middleware(t, store, httplimit.Config{}, failures("5/m"))
			url := serve(t, func(e *gin.Engine) {
				e.Use(tc.chain(m)...)
				e.GET("/", tc.handler)
				e.GET("/left", func(*gin.Context) {})
			})
			if a := limittest.Do(t, "GET", url); a.Status != tc.status {
				t.Errorf("status %d, want %d", a.Status, tc.status)
			}
			if got := limittest.Remaining(t, url+"/left"); got != tc.left {
				t.Errorf("%s left, want %s", got, tc.left)
			}
		})
	}
}

// TestOutside checks that middleware in front gets gin's own writer and request.
func TestOutside(t *testing.T) {
	store, _ := limittest.Store(t)
	m := limittest.Middleware(t, store, httplimit.Config{}, policy.Config{Name: "p", Limits: limittest.Limits("10/m"), Settle: policy.Settle{JSON: "usage.total"}})
	var outside, inside, after string
	var sameWriter, status, size, kept atomic.Int64
	url := serve(t, func(e *gin.Engine) {
		e.Use(func(c *gin.Context) {
			w := c.Writer
			c.Next()
			outside = c.GetHeader("Accept-Encoding")
			status.Store(int64(c.Writer.Status()))
			size.Store(int64(c.Writer.Size()))
			if c.Writer == w {
				sameWriter.Store(1)
			}
			if c.Request.Context().Value(key{}) != nil {
				kept.Store(1)
			}
		}, weirgin.Middleware(m))
		e.GET("/json", func(c *gin.Context) {
			inside = c.GetHeader("Accept-Encoding")
			_, _ = c.Writer.WriteString(`{"usage":`)
			after = http.StatusText(c.Writer.Status())
			c.Writer.Header().Set("Content-Type", "text/late")
			_, _ = c.Writer.Write([]byte(`{"total":3}}`))
		})
		e.GET("/replaced", func(c *gin.Context) {
			c.Request = c.Request.WithContext(withKey(c.Request))
			c.Data(200, "application/json", []byte(`{"usage":{"total":4}}`))
		})
	})
	limittest.Do(t, "GET", url+"/replaced", "Accept-Encoding: br")
	if kept.Load() != 1 {
		t.Error("a request that the handler made is lost")
	}
	limittest.Do(t, "GET", url+"/json", "Accept-Encoding: gzip")
	if outside != "gzip" || inside != "identity" || after != "OK" {
		t.Errorf("Accept-Encoding outside %q, inside %q, status %q", outside, inside, after)
	}
	if sameWriter.Load() != 1 || status.Load() != 200 || size.Load() != int64(len(`{"usage":{"total":3}}`)) {
		t.Errorf("writer %d, status %d, size %d", sameWriter.Load(), status.Load(), size.Load())
	}
}

// TestDenialAborts checks that a denial ends the chain, wherever it stands.
func TestDenialAborts(t *testing.T) {
	store, _ := limittest.Store(t)
	m := limittest.Middleware(t, store, httplimit.Config{}, policy.Config{Name: "p", Limits: limittest.Limits("1/m")})
	var reached, aborted atomic.Int64
	url := serve(t, func(e *gin.Engine) {
		e.Use(func(c *gin.Context) {
			c.Next()
			if c.IsAborted() {
				aborted.Add(1)
			}
		}, weirgin.Middleware(m), func(*gin.Context) { reached.Add(1) })
		e.GET("/", func(c *gin.Context) { reached.Add(1); c.String(200, "x") })
	})
	for range 3 {
		limittest.Do(t, "GET", url)
	}
	if reached.Load() != 2 || aborted.Load() != 2 {
		t.Errorf("reached %d, aborted %d, want 2 and 2", reached.Load(), aborted.Load())
	}
}
