package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
)

const attackFile = `
gateway:
  routes:
    - { path: /, upstream: "UPSTREAM" }
policies:
  - { name: p, key: [client.ip], limits: [1000000/s burst 1000000] }
`

// A target is a program under attack, with an honest client at each listener.
type target struct {
	*serving
	listeners map[string]string // host:port by name

	stop    context.CancelFunc
	clients sync.WaitGroup
	served  atomic.Int64
	most    int // goroutines of the program
}

// attacked starts a program whose upstream responds to /slow only when the request ends,
// and the honest clients.
func attacked(t *testing.T) *target {
	t.Helper()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-r.Context().Done()
		}
		io.WriteString(w, "ok")
	}))
	t.Cleanup(up.Close)
	a := &target{serving: serve(t, programtest.Weir(t), strings.Replace(attackFile, "UPSTREAM", up.URL, 1))}
	a.listeners = map[string]string{"gateway": strings.TrimPrefix(a.gateway, "http://"), "api": strings.TrimPrefix(a.api, "http://")}
	ctx, stop := context.WithCancel(t.Context())
	a.stop = stop
	for _, one := range []func() (*http.Response, error){
		func() (*http.Response, error) { return honest.Get(a.gateway + "/") },
		func() (*http.Response, error) {
			return honest.Post(a.api+"/v1/take", "", strings.NewReader(`{"key":"k","limit":"1000000/s"}`))
		},
	} {
		a.clients.Go(func() {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				res, err := one()
				if err != nil {
					t.Errorf("an honest request: %v", err)
					return
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if res.StatusCode != 200 {
					t.Errorf("an honest request = %s", res.Status)
					return
				}
				a.served.Add(1)
				<-tick.C
			}
		})
	}
	a.clients.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			a.most = max(a.most, a.goroutines(t))
			<-tick.C
		}
	})
	return a
}

var honest = &http.Client{Timeout: time.Minute}

var goroutineTotal = regexp.MustCompile(`total (\d+)`)

func (a *target) goroutines(t *testing.T) int {
	t.Helper()
	_, body, err := get(t.Context(), honest, a.admin+"/debug/pprof/goroutine?debug=1")
	m := goroutineTotal.FindStringSubmatch(body)
	if err != nil || m == nil {
		t.Errorf("goroutines: %v %.100q", err, body)
		return 0
	}
	n, _ := strconv.Atoi(m[1]) // digits
	return n
}

// end waits until honest clients had some responses, also after the attack if that was short, and
// stops them. It checks that the program never had more goroutines than most.
func (a *target) end(t *testing.T, most int) {
	t.Helper()
	redistest.Await(t, "20 honest requests", func() error {
		if n := a.served.Load(); n < 20 && !t.Failed() {
			return fmt.Errorf("%d responses", n)
		}
		return nil
	})
	a.stop()
	a.clients.Wait()
	if a.most == 0 || a.most > most {
		t.Errorf("%d goroutines during the attack, want at most %d", a.most, most)
	}
	t.Logf("%d honest requests, at most %d goroutines", a.served.Load(), a.most)
}

// An h2 is a raw HTTP/2 connection without TLS.
type h2 struct {
	conn   net.Conn
	framer *http2.Framer
	w      *bufio.Writer
	closed chan struct{} // the server has closed the connection
	goaway atomic.Bool
	pong   chan struct{} // receives one element for each PING
}

func dialH2(t *testing.T, addr string) *h2 {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(2 * time.Minute))
	c := &h2{conn: conn, w: bufio.NewWriter(conn), closed: make(chan struct{}), pong: make(chan struct{}, 1)}
	c.framer = http2.NewFramer(c.w, conn)
	io.WriteString(c.w, http2.ClientPreface)
	c.framer.WriteSettings()
	if err := c.w.Flush(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.closed)
		for {
			f, err := c.framer.ReadFrame()
			if err != nil {
				return
			}
			switch f := f.(type) {
			case *http2.GoAwayFrame:
				c.goaway.Store(true)
			case *http2.PingFrame:
				if f.IsAck() {
					c.pong <- struct{}{}
				}
			}
		}
	}()
	return c
}

// ping returns when the server has read everything before.
func (c *h2) ping() error {
	err := c.framer.WritePing(false, [8]byte{})
	if err == nil {
		err = c.w.Flush()
	}
	if err != nil {
		return err
	}
	select {
	case <-c.pong:
		return nil
	case <-c.closed:
		return net.ErrClosed
	}
}

// fields encodes the header fields of a request.
func fields(path string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	e.SetMaxDynamicTableSizeLimit(0)
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "127.0.0.1"}, {":path", path}} {
		e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	return b.Bytes()
}

// TestAttackRapidReset opens and resets streams as fast as the connection takes them. Each
// connection has at most the permitted number of streams at work, and is then closed.
func TestAttackRapidReset(t *testing.T) {
	t.Parallel()
	const connections, streams = 3, 5_000
	a := attacked(t)
	before := a.goroutines(t)
	var attack sync.WaitGroup
	var closed atomic.Int64
	for name, addr := range a.listeners {
		path := map[string]string{"gateway": "/slow", "api": "/readyz"}[name]
		for range connections {
			c := dialH2(t, addr)
			attack.Go(func() {
				header := fields(path)
				for i := range streams {
					id := uint32(2*i + 1)
					err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: header, EndStream: true, EndHeaders: true})
					if err == nil {
						err = c.framer.WriteRSTStream(id, http2.ErrCodeCancel)
					}
					if err == nil && i%100 == 99 {
						err = c.ping()
					}
					if err != nil || c.goaway.Load() {
						closed.Add(1)
						return
					}
				}
			})
		}
	}
	attack.Wait()
	// 250 streams a connection, each with the goroutines of a proxied request.
	a.end(t, before+2*connections*250*6)
	t.Logf("%d of %d connections closed before %d streams", closed.Load(), 2*connections, streams)
}

// TestAttackContinuationFlood sends header fields without end. The program closes the
// connection soon after the fields exceed its bound.
func TestAttackContinuationFlood(t *testing.T) {
	t.Parallel()
	const frames = 4000 // of 16 KiB; the buffers of the sockets take some hundred
	a := attacked(t)
	before := a.goroutines(t)
	var fragment bytes.Buffer
	e := hpack.NewEncoder(&fragment)
	e.SetMaxDynamicTableSizeLimit(0)
	for fragment.Len() < 15<<10 {
		e.WriteField(hpack.HeaderField{Name: "x-flood", Value: strings.Repeat("x", 500), Sensitive: true})
	}
	var attack sync.WaitGroup
	for name, addr := range a.listeners {
		c := dialH2(t, addr)
		attack.Go(func() {
			err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: fields("/"), EndStream: true})
			sent := 0
			for ; err == nil && sent < frames; sent++ {
				if err = c.framer.WriteContinuation(1, false, fragment.Bytes()); err == nil {
					err = c.w.Flush()
				}
				select {
				case <-c.closed:
					err = net.ErrClosed
				default:
				}
			}
			if sent == frames {
				t.Errorf("%s accepted %d frames of header fields", name, sent)
			}
			t.Logf("%s closed the connection after %d frames", name, sent)
		})
	}
	attack.Wait()
	a.end(t, before+100)
}

// TestAttackSlow opens connections that send the beginning of a request and then nothing. The
// program closes each one after its timeout.
func TestAttackSlow(t *testing.T) {
	t.Parallel()
	const connections = 100
	const limit = time.Minute // the timeouts are 10 s
	a := attacked(t)
	before := a.goroutines(t)
	var attack sync.WaitGroup
	for name, addr := range a.listeners {
		texts := []string{"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ", ""}
		if name == "api" {
			texts[1] = "POST /v1/take HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{"
		}
		for i := range connections {
			text := texts[i%len(texts)]
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			attack.Go(func() {
				defer conn.Close()
				conn.SetDeadline(time.Now().Add(limit))
				_, err := io.WriteString(conn, text)
				if err == nil {
					_, err = io.Copy(io.Discard, conn)
				}
				if errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%s: a connection with %.30q was open for %v", name, text, limit)
				}
			})
		}
	}
	attack.Wait()
	a.end(t, before+2*connections*4)
}
