package e2e_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/verify/load/measure"
)

// loadPaths are the paths of a load. Each connection requests one of them.
var loadPaths = [...]string{"/login", "/api"}

// loadTimeout bounds a response of the gateway.
const loadTimeout = 15 * time.Second

// A load sends requests over many connections and counts the responses. wrk cannot pace them.
type load struct {
	addr  string
	pace  time.Duration // between two requests of a connection; 0 for none
	conns []net.Conn

	responses  atomic.Int64
	denied     atomic.Int64 // status 429
	overloaded atomic.Int64 // status 503: without a decision
	local      atomic.Int64 // decided by the share of the process
	errors     atomic.Int64 // no response, or another status
	decisions  measure.Histogram
}

// newLoad opens the connections. They close with the test.
func newLoad(t *testing.T, addr string, connections int) *load {
	t.Helper()
	l := &load{addr: addr, conns: make([]net.Conn, connections)}
	t.Cleanup(func() {
		for _, c := range l.conns {
			if c != nil {
				c.Close()
			}
		}
	})
	var wg sync.WaitGroup
	var next atomic.Int64
	for range 16 {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(connections) && !t.Failed(); i = next.Add(1) - 1 {
				var err error
				if l.conns[i], err = l.dial(); err != nil {
					t.Errorf("connection %d of %d: %v", i+1, connections, err)
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return l
}

func (l *load) dial() (net.Conn, error) { return net.DialTimeout("tcp", l.addr, loadTimeout) }

// run sends requests for a time, and waits for the responses.
func (l *load) run(d time.Duration) {
	var wg sync.WaitGroup
	end := time.Now().Add(d)
	for i := range l.conns {
		wg.Go(func() {
			if l.pace > 0 {
				<-time.After(l.pace * time.Duration(i) / time.Duration(len(l.conns)))
			}
			l.send(i, end)
		})
	}
	wg.Wait()
}

// send sends the requests of one connection.
func (l *load) send(i int, end time.Time) {
	request := []byte("GET " + loadPaths[i%len(loadPaths)] + " HTTP/1.1\r\nHost: " + l.addr + "\r\n\r\n")
	body := bufio.NewReader(l.conns[i])
	for began := time.Now(); began.Before(end); began = time.Now() {
		l.conns[i].SetDeadline(began.Add(loadTimeout))
		if err := l.exchange(l.conns[i], body, request, began); err != nil {
			l.errors.Add(1)
			l.conns[i].Close()
			c, err := l.dial()
			if err != nil {
				return
			}
			l.conns[i] = c
			body.Reset(c)
		}
		if l.pace > 0 {
			<-time.After(l.pace - time.Since(began)%l.pace)
		}
	}
}

// exchange sends one request and counts its response.
func (l *load) exchange(w io.Writer, r *bufio.Reader, request []byte, began time.Time) error {
	if _, err := w.Write(request); err != nil {
		return err
	}
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	l.responses.Add(1)
	switch res.StatusCode {
	case http.StatusTooManyRequests:
		l.denied.Add(1)
	case http.StatusServiceUnavailable:
		l.overloaded.Add(1)
		return nil
	case http.StatusOK:
	default:
		l.errors.Add(1)
		return nil
	}
	l.decisions.Add(time.Since(began))
	if res.Header.Get("Weir-Degraded") == "local" {
		l.local.Add(1)
	}
	return nil
}
