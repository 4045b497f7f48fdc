package weirgin_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	weirgin "github.com/floodweir/weir/contrib/gin"
	"github.com/gin-gonic/gin"

	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

func failures(limit string) policy.Config {
	return policy.Config{Name: "p", Limits: limits(limit), Count: policy.CountFailures}
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
			store, _ := clocked(t)
			m := limited(t, store, httplimit.Config{}, failures("5/m"))
			url := serving(t, func(e *gin.Engine) {
				e.Use(tc.chain(m)...)
				e.GET("/", tc.handler)
				e.GET("/left", func(*gin.Context) {})
			})
			if a := ask(t, "GET", url); a.status != tc.status {
				t.Errorf("status %d, want %d", a.status, tc.status)
			}
			if got := remaining(t, url+"/left"); got != tc.left {
				t.Errorf("%s left, want %s", got, tc.left)
			}
		})
	}
}

// What stands outside sees gin's own writer and request again.
func TestOutside(t *testing.T) {
	store, _ := clocked(t)
	m := limited(t, store, httplimit.Config{}, policy.Config{Name: "p", Limits: limits("10/m"), Settle: policy.Settle{JSON: "usage.total"}})
	var outside, inside, after string
	var sameWriter, status, size, kept atomic.Int64
	url := serving(t, func(e *gin.Engine) {
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
			c.Data(200, "application/json", []byte(usage))
		})
	})
	ask(t, "GET", url+"/replaced", "Accept-Encoding: br")
	if kept.Load() != 1 {
		t.Error("a request that the handler made is lost")
	}
	ask(t, "GET", url+"/json", "Accept-Encoding: gzip")
	if outside != "gzip" || inside != "identity" || after != "OK" {
		t.Errorf("Accept-Encoding outside %q, inside %q, status %q", outside, inside, after)
	}
	if sameWriter.Load() != 1 || status.Load() != 200 || size.Load() != int64(len(`{"usage":{"total":3}}`)) {
		t.Errorf("writer %d, status %d, size %d", sameWriter.Load(), status.Load(), size.Load())
	}
}

// A denial ends the chain, wherever it stands.
func TestDenialAborts(t *testing.T) {
	store, _ := clocked(t)
	m := limited(t, store, httplimit.Config{}, policy.Config{Name: "p", Limits: limits("1/m")})
	var reached, aborted atomic.Int64
	url := serving(t, func(e *gin.Engine) {
		e.Use(func(c *gin.Context) {
			c.Next()
			if c.IsAborted() {
				aborted.Add(1)
			}
		}, weirgin.Middleware(m), func(*gin.Context) { reached.Add(1) })
		e.GET("/", func(c *gin.Context) { reached.Add(1); c.String(200, "x") })
	})
	for range 3 {
		ask(t, "GET", url)
	}
	if reached.Load() != 2 || aborted.Load() != 2 {
		t.Errorf("reached %d, aborted %d, want 2 and 2", reached.Load(), aborted.Load())
	}
}

func TestGroups(t *testing.T) {
	store, _ := clocked(t)
	in := func(name, limit string) gin.HandlerFunc {
		return weirgin.Middleware(limited(t, store, httplimit.Config{}, policy.Config{Name: name, Limits: limits(limit), Count: policy.CountFailures}))
	}
	url := serving(t, func(e *gin.Engine) {
		e.Use(in("all", "5/m"))
		fail := func(c *gin.Context) { c.Status(500) }
		e.Group("/a", in("a", "1/m")).GET("", fail)
		e.Group("/b", in("b", "2/m")).GET("", fail)
		e.GET("/c", fail)
	})
	var got []int
	for _, path := range []string{"/a", "/a", "/b", "/b", "/b", "/c", "/nowhere"} {
		got = append(got, ask(t, "GET", url+path).status)
	}
	// The denials of the groups are failures for all: 1, 2, 3, 4, 5, and then it denies.
	want := []int{500, 429, 500, 500, 429, 429, 429}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("statuses %v, want %v", got, want)
		}
	}
}

// An event reaches the client while its stream goes on, and the slot is taken so long.
func TestStream(t *testing.T) {
	store, _ := clocked(t)
	m := limited(t, store, httplimit.Config{},
		policy.Config{Name: "slots", Match: policy.Match{Paths: []string{"/stream"}}, Limits: limits("1 concurrency lease 30s")},
		policy.Config{Name: "tokens", Limits: limits("10/m"), Settle: policy.Settle{JSON: "usage.total"}})
	more := make(chan bool)
	url := served(t, m, func(e *gin.Engine) {
		e.GET("/stream", func(c *gin.Context) {
			c.Header("Content-Type", "text/event-stream")
			for _, total := range []string{"1", "6"} {
				_, _ = c.Writer.WriteString("data: {\"usage\":{\"total\":" + total + "}}\n\n")
				c.Writer.Flush()
				<-more
			}
		})
		routes(e)
	})
	res, err := http.Get(url + "/stream") // returns when the first event was flushed
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	in := bufio.NewReader(res.Body)
	if line, _ := in.ReadString('\n'); line != "data: {\"usage\":{\"total\":1}}\n" {
		t.Errorf("first line %q", line)
	}
	if a := ask(t, "GET", url+"/stream"); a.status != 429 {
		t.Errorf("beside a stream: status %d, want 429", a.status)
	}
	close(more)
	if _, err := io.Copy(io.Discard, in); err != nil {
		t.Fatal(err)
	}
	if got := remaining(t, url+"/text"); got != "3" {
		t.Errorf("%s left, want 3", got)
	}
	if a := ask(t, "GET", url+"/stream"); a.status != 200 {
		t.Errorf("after a stream: status %d, want 200", a.status)
	}
}

func TestHijack(t *testing.T) {
	store, _ := clocked(t)
	m := limited(t, store, httplimit.Config{},
		policy.Config{Name: "slots", Limits: limits("1 concurrency lease 30s")}, failures("2/m"))
	url := served(t, m, func(e *gin.Engine) {
		e.GET("/socket", func(c *gin.Context) {
			conn, rw, err := c.Writer.Hijack()
			if err != nil {
				c.Status(500)
				return
			}
			defer func() { _ = conn.Close() }()
			_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			_ = rw.Flush()
			line, _ := rw.ReadString('\n')
			_, _ = rw.WriteString(line)
			_ = rw.Flush()
		})
		e.GET("/text", func(c *gin.Context) { c.String(200, "hello") })
	})
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "GET /socket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != 101 {
		t.Fatalf("upgrade: %v %v", res, err)
	}
	if a := ask(t, "GET", url+"/text"); a.status != 429 {
		t.Errorf("beside a socket: status %d, want 429", a.status)
	}
	_, _ = io.WriteString(conn, "ping\n")
	if rest, err := io.ReadAll(in); err != nil || string(rest) != "ping\n" {
		t.Errorf("echo %q, %v", rest, err)
	}
	// The connection ends before the handler has returned.
	a := ask(t, "GET", url+"/text")
	for range 1000 {
		if a.status == 200 {
			break
		}
		a = ask(t, "GET", url+"/text")
	}
	if a.status != 200 || !strings.Contains(a.header.Get("RateLimit"), `"p";r=1`) {
		t.Errorf("after a socket: %d %s", a.status, a.header.Get("RateLimit"))
	}
}

func TestSlotAfterPanic(t *testing.T) {
	store, _ := clocked(t)
	m := limited(t, store, httplimit.Config{}, policy.Config{Name: "slots", Limits: limits("1 concurrency lease 30s")})
	url := serving(t, func(e *gin.Engine) {
		e.Use(gin.RecoveryWithWriter(io.Discard), weirgin.Middleware(m))
		e.GET("/", func(*gin.Context) { panic("no") })
	})
	for i := range 3 {
		if a := ask(t, "GET", url); a.status != 500 {
			t.Fatalf("request %d: status %d, want 500", i, a.status)
		}
	}
}

// A request that waits is let in when its turn comes.
func TestWait(t *testing.T) {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	m := limited(t, store, httplimit.Config{}, policy.Config{Name: "p", Limits: limits("100/s burst 1"), OnDenied: policy.OnDenied{Wait: time.Minute}})
	url := served(t, m, routes)
	began := time.Now()
	for range 5 {
		if a := ask(t, "GET", url+"/text"); a.status != 200 {
			t.Fatalf("status %d, want 200", a.status)
		}
	}
	if took := time.Since(began); took < 35*time.Millisecond {
		t.Errorf("five at 100/s took %v", took)
	}
}

func TestMany(t *testing.T) {
	store, _ := clocked(t)
	m := limited(t, store, httplimit.Config{}, policy.Config{Name: "p", Limits: limits("40/m")}, policy.Config{Name: "tokens", Limits: limits("1000/m"), Settle: policy.Settle{JSON: "usage.total"}})
	url := served(t, m, routes)
	var admitted, denied atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				switch ask(t, "GET", url+"/json").status {
				case 200:
					admitted.Add(1)
				case 429:
					denied.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if admitted.Load() != 40 || denied.Load() != 40 {
		t.Errorf("%d admitted, %d denied, want 40 and 40", admitted.Load(), denied.Load())
	}
}
