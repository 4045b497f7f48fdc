package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// newDirect returns a direct to an upstream that serves each connection with serve, by its
// number. serve gets a reader that reads the next request.
func newDirect(t *testing.T, serve func(n int, c net.Conn, next func() error)) *direct {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				serve(n, c, func() error {
					_, err := http.ReadRequest(r)
					return err
				})
			}()
		}
	}()
	d := &direct{next: transport(false, Route{DialTimeout: time.Minute}), addr: l.Addr().String()}
	t.Cleanup(d.CloseIdleConnections)
	return d
}

func (d *direct) get(t *testing.T, ctx context.Context) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", "http://"+d.addr+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := d.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return string(text), err
}

func respond(c net.Conn, body string) {
	io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: "+string(rune('0'+len(body)))+"\r\n\r\n"+body)
}

// TestDirectRepeats checks that a request is repeated if the upstream closes a connection that was
// idle, and only then.
func TestDirectRepeats(t *testing.T) {
	d := newDirect(t, func(n int, c net.Conn, next func() error) {
		switch next(); n {
		case 0: // answers one request, reads the second one and closes
			respond(c, "one")
			next()
		case 1: // the same, but begins its second response
			respond(c, "two")
			next()
			io.WriteString(c, "HTTP/1.1 2")
		}
	})
	for i, want := range []string{"one", "two", "", ""} { // the last one is on a new connection
		got, err := d.get(t, t.Context())
		if got != want || (err == nil) != (want != "") {
			t.Errorf("request %d = %q, %v, want %q", i, got, err, want)
		}
	}
}

// TestDirectUnsolicited checks that bytes which an upstream sends after its response are not the
// next response.
func TestDirectUnsolicited(t *testing.T) {
	for name, wait := range map[string]bool{"with the response": false, "while the connection is idle": true} {
		more := make(chan struct{})
		d := newDirect(t, func(n int, c net.Conn, next func() error) {
			next()
			if n > 0 {
				respond(c, "good")
				next()
				return
			}
			if wait {
				respond(c, "one")
				<-more
				respond(c, "forged")
			} else {
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\noneHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")
			}
			next()
		})
		if got, err := d.get(t, t.Context()); got != "one" || err != nil {
			t.Fatalf("%s: first = %q, %v", name, got, err)
		}
		if wait {
			close(more)
			d.mu.Lock()
			c := d.idle[0]
			d.mu.Unlock()
			c.SetReadDeadline(time.Now().Add(time.Minute))
			if _, err := c.Conn.Read(make([]byte, 1)); err != nil { // the rest stays
				t.Fatal(err)
			}
			c.SetReadDeadline(time.Time{})
		}
		if got, err := d.get(t, t.Context()); got != "good" || err != nil {
			t.Errorf("%s: second = %q, %v, want good", name, got, err)
		}
	}
}

// TestDirectCancel checks that the end of a context ends a request before and within its response,
// and closes the connection.
func TestDirectCancel(t *testing.T) {
	for _, header := range []string{"", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"} {
		received, closed := make(chan struct{}), make(chan struct{})
		d := newDirect(t, func(_ int, c net.Conn, next func() error) {
			next()
			io.WriteString(c, header)
			close(received)
			next() // returns when the connection closes
			close(closed)
		})
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { <-received; cancel(gone) }()
		if got, err := d.get(t, ctx); err == nil || header == "" && !errors.Is(err, gone) {
			t.Errorf("%q: %q, %v, want the cause", header, got, err)
		}
		<-closed
	}
}

// TestDirectHeaderBound checks that the header of a response is bounded.
func TestDirectHeaderBound(t *testing.T) {
	d := newDirect(t, func(_ int, c net.Conn, next func() error) {
		next()
		io.WriteString(c, "HTTP/1.1 200 OK\r\n")
		for line := "X: " + strings.Repeat("x", 60<<10) + "\r\n"; ; {
			if _, err := io.WriteString(c, line); err != nil {
				return
			}
		}
	})
	if _, err := d.get(t, t.Context()); !errors.Is(err, errLongHeader) {
		t.Errorf("an endless header: %v, want %v", err, errLongHeader)
	}
}

func TestSendsDirectly(t *testing.T) {
	for _, test := range []struct {
		method, body, header string
		want                 bool
	}{
		{"GET", "", "", true}, {"HEAD", "", "Te", true}, {"OPTIONS", "", "", true},
		{"POST", "", "", false}, {"DELETE", "", "", false}, {"GET", "x", "", false},
		{"GET", "", "Upgrade", false}, {"GET", "", "Connection", false}, {"GET", "", "Expect", false},
	} {
		r, err := http.NewRequest(test.method, "http://x/", strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		if test.header != "" {
			r.Header.Set(test.header, "x")
		}
		if got := sendsDirectly(r); got != test.want {
			t.Errorf("%+v: %t", test, got)
		}
	}
}

// TestDirectIdle checks that idle connections are closed after a time, and by CloseIdleConnections.
func TestDirectIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &direct{next: transport(false, Route{})}
		open := func() (ended chan struct{}) {
			here, there := net.Pipe()
			ended = make(chan struct{})
			go func() { io.Copy(io.Discard, there); close(ended) }()
			d.put(newDirectConn(here))
			return ended
		}
		isOpen := func(ended chan struct{}) bool {
			synctest.Wait()
			select {
			case <-ended:
				return false
			default:
				return true
			}
		}
		first := open()
		time.Sleep(idleTimeout / 2)
		second := open()
		if time.Sleep(idleTimeout / 2); isOpen(first) || !isOpen(second) {
			t.Error("want the first connection closed and the second open")
		}
		if time.Sleep(idleTimeout / 2); isOpen(second) {
			t.Error("want the second connection closed")
		}
		third := open()
		d.CloseIdleConnections()
		if isOpen(third) || isOpen(open()) {
			t.Error("want no connection open after CloseIdleConnections")
		}
	})
}

// TestDirectIdleMany checks that many clients that ask at once do not need new connections each time.
func TestDirectIdleMany(t *testing.T) {
	const clients = 300
	var dialed atomic.Int64
	asked, answer := make(chan bool), make(chan bool)
	d := newDirect(t, func(n int, c net.Conn, next func() error) {
		dialed.Add(1)
		for next() == nil {
			asked <- true
			<-answer
			respond(c, "ok")
		}
	})
	for range 2 {
		var ended sync.WaitGroup
		for range clients {
			ended.Go(func() {
				if text, err := d.get(t, t.Context()); err != nil || text != "ok" {
					t.Errorf("got %q, %v", text, err)
				}
			})
		}
		for range clients {
			<-asked
		}
		for range clients {
			answer <- true
		}
		ended.Wait()
	}
	if n := dialed.Load(); n != clients {
		t.Errorf("%d connections for %d clients that asked twice", n, clients)
	}
}
