package run

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/metrics"
	"github.com/floodweir/weir/internal/certtest"
)

// patient bounds the time of everything in a test.
const patient = time.Minute

// bare returns a program that has no parts but metrics.
func bare() *Program {
	p := newProgram(Input{Config: &config.Config{}}, discard())
	p.observers = &observers{metrics: metrics.New(metrics.Config{})}
	return p
}

// startHTTP starts an HTTP interface on a free port.
func startHTTP(t *testing.T, handler http.HandlerFunc, readTimeout time.Duration, c *tls.Config) *listener {
	t.Helper()
	p := bare()
	l := p.newHTTP("test", "127.0.0.1:0", handler, readTimeout, c)
	if err := l.start(p.log, p.failed); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		l.drain(ctx, p.log)
	})
	return l
}

func TestProtocols(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }
	cert, pool := certtest.New(t)
	plain, secure := startHTTP(t, echo, 0, nil), startHTTP(t, echo, 0, &tls.Config{Certificates: []tls.Certificate{*cert}})
	h2c := new(http.Protocols)
	h2c.SetUnencryptedHTTP2(true)
	for _, test := range []struct {
		name, url, want string
		transport       *http.Transport
	}{
		{"HTTP/1.1", plain.url(), "HTTP/1.1", &http.Transport{}},
		{"h2c", plain.url(), "HTTP/2.0", &http.Transport{Protocols: h2c}},
		{"HTTP/1.1 over TLS", secure.url(), "HTTP/1.1", &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, NextProtos: []string{"http/1.1"}}}},
		{"HTTP/2", secure.url(), "HTTP/2.0", &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			defer test.transport.CloseIdleConnections()
			res, err := (&http.Client{Transport: test.transport, Timeout: patient}).Get(test.url)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if body, _ := io.ReadAll(res.Body); string(body) != test.want {
				t.Errorf("the handler got %s, want %s", body, test.want)
			}
		})
	}
}

// TestDrain checks that a drain lets the request in flight end and admits no other.
func TestDrain(t *testing.T) {
	arrived, goOn := make(chan struct{}), make(chan struct{})
	l := startHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-goOn
		io.WriteString(w, "done")
	}, 0, nil)
	answer := make(chan string, 1)
	go func() {
		res, err := http.Get(l.url())
		if err != nil {
			answer <- err.Error()
			return
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		answer <- string(body)
	}()
	<-arrived
	drained := drains(l)
	refused(t, l)
	select {
	case <-drained:
		t.Fatal("the drain did not wait for the request in flight")
	default:
	}
	close(goOn)
	if got := <-answer; got != "done" {
		t.Errorf("the request in flight got %q, want done", got)
	}
	<-drained
	l.drain(context.Background(), discard()) // again: nothing
}

// drains starts to drain l, and returns a channel that is closed when that ends.
func drains(l *listener) chan struct{} {
	drained := make(chan struct{})
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patient)
		defer cancel()
		l.drain(ctx, discard())
		close(drained)
	}()
	return drained
}

// refused waits until the listener accepts no more connections.
func refused(t *testing.T, l *listener) {
	t.Helper()
	for end := time.Now().Add(patient); time.Now().Before(end); {
		conn, err := net.Dial("tcp", l.bound.String())
		if err != nil {
			return
		}
		conn.Close()
	}
	t.Fatal("the listener still accepts connections")
}

// TestDrainEnds checks that at the end of the drain what still runs is cut off: a request
// by its context, an upgraded connection by being closed.
func TestDrainEnds(t *testing.T) {
	arrived := make(chan struct{}, 2)
	l := startHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/upgrade" {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
		}
		arrived <- struct{}{}
		<-r.Context().Done()
	}, 0, nil)
	readers := map[string]*bufio.Reader{}
	for _, path := range []string{"/", "/upgrade"} {
		conn, err := net.Dial("tcp", l.bound.String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(patient))
		upgrade := ""
		if path == "/upgrade" {
			upgrade = upgradeFields
		}
		io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\n"+upgrade+"\r\n")
		readers[path] = bufio.NewReader(conn)
		<-arrived
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	l.drain(ctx, discard())
	for path, r := range readers {
		if _, err := io.Copy(io.Discard, r); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s was not cut off: %v", path, err)
		}
	}
}

// upgradeFields ask for an upgrade, without which a handler cannot take over the connection.
const upgradeFields = "Connection: Upgrade\r\nUpgrade: x\r\n"

// TestDrainWaitsForUpgraded checks that an upgraded connection is a request in flight:
// the drain waits for it.
func TestDrainWaitsForUpgraded(t *testing.T) {
	arrived, goOn := make(chan struct{}), make(chan struct{})
	l := startHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		close(arrived)
		<-goOn
		io.WriteString(conn, "bye")
	}, 0, nil)
	conn, err := net.Dial("tcp", l.bound.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n"+upgradeFields+"\r\n")
	<-arrived
	drained := drains(l)
	refused(t, l)
	select {
	case <-drained:
		t.Error("the drain did not wait for the upgraded connection")
	default:
	}
	close(goOn)
	<-drained
	conn.SetDeadline(time.Now().Add(patient))
	if got, _ := io.ReadAll(conn); string(got) != "bye" {
		t.Errorf("the upgraded connection got %q, want bye", got)
	}
}

func TestPortInUse(t *testing.T) {
	first := startHTTP(t, http.NotFound, 0, nil)
	p := bare()
	second := p.newHTTP("gateway", first.bound.String(), http.NotFoundHandler(), 0, nil)
	err := second.start(p.log, p.failed)
	if err == nil || !strings.Contains(err.Error(), "gateway: "+second.addr+" is in use") || !strings.Contains(err.Error(), "--listen-gateway") {
		t.Errorf("start = %v, want what to do about a port in use", err)
	}
}

// TestPortsInUse checks that one start reports all interfaces whose ports are in use, and stops
// the others.
func TestPortsInUse(t *testing.T) {
	first := startHTTP(t, http.NotFound, 0, nil)
	c := settings(t, "http://127.0.0.1:1", perClient("1/s"))
	c.Admin.Listen, c.HTTP.Listen = first.bound.String(), first.bound.String()
	log := &strings.Builder{}
	_, err := Start(t.Context(), Input{Config: c}, slog.New(slog.NewTextHandler(log, nil)))
	if err == nil || !strings.Contains(err.Error(), "admin: ") || !strings.Contains(err.Error(), "\nhttp: ") {
		t.Fatalf("Start = %v, want the errors of admin and http", err)
	}
	url := regexp.MustCompile(`interface=gateway url=(\S+)`).FindStringSubmatch(log.String())
	if url == nil {
		t.Fatalf("the gateway did not start: %s", log)
	}
	if _, err := http.Get(url[1]); err == nil {
		t.Error("the gateway still accepts connections")
	}
}

// TestHeadersThatNeverEnd checks that a client that sends headers without end, or none,
// is let go.
func TestHeadersThatNeverEnd(t *testing.T) {
	l := startHTTP(t, http.NotFound, 0, nil)
	conn, err := net.Dial("tcp", l.bound.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patient))
	go func() {
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n")
		for range 100 {
			if _, err := io.WriteString(conn, "X-Long: "+strings.Repeat("x", 1000)+"\r\n"); err != nil {
				return
			}
		}
	}()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("100 kB of headers = %v, %v, want 431", res, err)
	}
	if s := &l.server.(*httpServer).server; s.ReadHeaderTimeout == 0 || s.IdleTimeout == 0 {
		t.Error("the server waits for headers for ever")
	}
}

// TestOptionsOfTheServer checks that a request about no path is handled, and so limited,
// as every other is.
func TestOptionsOfTheServer(t *testing.T) {
	l := startHTTP(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, 0, nil)
	conn, err := net.Dial("tcp", l.bound.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patient))
	io.WriteString(conn, "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")
	if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || res.StatusCode != http.StatusTooManyRequests {
		t.Errorf("OPTIONS * = %v, %v, want the answer of the handler", res, err)
	}
}

func TestURL(t *testing.T) {
	for addr, want := range map[string]string{"[::]:8000": "http://127.0.0.1:8000", "0.0.0.0:80": "http://127.0.0.1:80", "[::1]:81": "http://[::1]:81", "192.0.2.1:82": "http://192.0.2.1:82"} {
		bound, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if got := (&listener{bound: bound, scheme: "http"}).url(); got != want {
			t.Errorf("url of %s = %s, want %s", addr, got, want)
		}
	}
}

// TestBodyThatNeverComes checks that a body that never comes, and that no handler reads,
// does not keep a connection for ever.
func TestBodyThatNeverComes(t *testing.T) {
	l := startHTTP(t, http.NotFound, 100*time.Millisecond, nil)
	conn, err := net.Dial("tcp", l.bound.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patient))
	io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Errorf("the connection is still there: %v", err)
	}
}

// TestCredentialsOffLoopback checks that an interface with a remedy listens only on loopback
// unless it requires credentials, by whatever name the address is written.
func TestCredentialsOffLoopback(t *testing.T) {
	for _, test := range []struct {
		addr    string
		open    bool
		remedy  string
		refused bool
	}{
		{"127.0.0.1:0", true, "--x-token-file", false},
		{"localhost:0", true, "--x-token-file", false},
		{"127.8.8.8:0", true, "--x-token-file", false},
		{"0.0.0.0:0", true, "--x-token-file", true},
		{":0", true, "--x-token-file", true},
		{":0", false, "--x-token-file", false},
		{":0", true, "", false}, // warns
	} {
		l := bare().newHTTP("x", test.addr, http.NotFoundHandler(), 0, nil)
		l.open, l.remedy = test.open, test.remedy
		err := l.start(discard(), make(chan error, 1))
		if refused := err != nil && strings.Contains(err.Error(), test.remedy) && strings.Contains(err.Error(), "--listen-x"); refused != test.refused || err != nil && !refused {
			t.Errorf("listen on %s, open %t, remedy %q: %v, want refused %t", test.addr, test.open, test.remedy, err, test.refused)
		}
		l.drain(t.Context(), discard())
		if l.bound == nil {
			continue
		}
		if conn, err := net.Dial("tcp", l.bound.String()); err == nil {
			conn.Close()
			t.Errorf("%s still listens", l.bound)
		}
	}
}
