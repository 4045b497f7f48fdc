package respd_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/respd"
)

// pipes is a listener of connections in memory, which a synctest bubble can wait for.
type pipes struct {
	conns chan net.Conn
	ended chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	select {
	case <-p.ended:
	default:
		close(p.ended)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial() *client {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return &client{ours, bufio.NewReader(ours)}
}

// bubble runs f with a server on pipes and a fake clock.
func bubble(t *testing.T, c respd.Config, f func(t *testing.T, s *respd.Server, p *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		if c.Store == nil {
			c.Store = &fake{do: func(weir.Request) (weir.Decision, error) { return weir.Decision{OK: true}, nil }}
		}
		s, err := respd.New(c)
		if err != nil {
			t.Fatal(err)
		}
		p := newPipes()
		go s.Serve(p)
		f(t, s, p)
		s.Close()
	})
}

// ends is after how long the connection ends.
func (c *client) ends() time.Duration {
	begun := time.Now()
	io.Copy(io.Discard, c.r)
	return time.Since(begun)
}

func TestIdle(t *testing.T) {
	bubble(t, respd.Config{IdleTimeout: time.Minute}, func(t *testing.T, _ *respd.Server, p *pipes) {
		if got := p.dial().ends(); got != time.Minute {
			t.Errorf("a silent connection ends after %v, want 1m", got)
		}
		c := p.dial()
		for range 3 {
			<-time.After(59 * time.Second)
			c.do(t, "PING")
		}
		if got := c.ends(); got != time.Minute {
			t.Errorf("one that was used ends %v after that, want 1m", got)
		}
	})
	bubble(t, respd.Config{}, func(t *testing.T, _ *respd.Server, p *pipes) {
		if got := p.dial().ends(); got != respd.DefaultIdleTimeout {
			t.Errorf("by default, a silent connection ends after %v, want %v", got, respd.DefaultIdleTimeout)
		}
	})
	bubble(t, respd.Config{IdleTimeout: -1}, func(t *testing.T, s *respd.Server, p *pipes) {
		c := p.dial()
		<-time.After(1000 * time.Hour)
		if got := c.do(t, "PING"); got != "PONG" {
			t.Errorf("after 1000 hours, PING = %s", got)
		}
	})
}

// TestSlowCommand checks that a command that arrives byte by byte has a deadline.
func TestSlowCommand(t *testing.T) {
	bubble(t, respd.Config{}, func(t *testing.T, _ *respd.Server, p *pipes) {
		c := p.dial()
		begun := time.Now()
		text := encode("ECHO", strings.Repeat("x", 1000))
		for i := range text {
			if _, err := io.WriteString(c, text[i:i+1]); err != nil {
				break
			}
			<-time.After(time.Second)
		}
		if took := time.Since(begun); took < 30*time.Second || took > 32*time.Second {
			t.Errorf("a byte a second: ended after %v, want 30s", took)
		}
		// A pipeline that goes on for longer is not one slow command.
		c = p.dial()
		go io.Copy(io.Discard, c.r)
		for range 100 {
			text := "PING\r\nPI"
			if _, err := io.WriteString(c, text); err != nil {
				t.Fatalf("a slow pipeline: %v", err)
			}
			<-time.After(time.Second)
			if _, err := io.WriteString(c, "NG\r\n"); err != nil {
				t.Fatalf("a slow pipeline: %v", err)
			}
		}
		c.Close()
	})
}

// TestUnreadReplies checks that a client that does not read its replies is disconnected.
func TestUnreadReplies(t *testing.T) {
	bubble(t, respd.Config{}, func(t *testing.T, _ *respd.Server, p *pipes) {
		c := p.dial()
		begun := time.Now()
		for {
			if _, err := io.WriteString(c, "PING\r\n"); err != nil {
				break
			}
		}
		if took := time.Since(begun); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("ended after %v, want 10s to 11s", took)
		}
	})
}

func TestShutdown(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	store := &fake{do: func(weir.Request) (weir.Decision, error) {
		close(asked)
		<-answer
		return weir.Decision{OK: true}, nil
	}}
	s, err := respd.New(respd.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	idle, busy := dial(t, l.Addr().String()), dial(t, l.Addr().String())
	idle.do(t, "PING")
	busy.send(t, encode("CL.THROTTLE", "k", "0", "1", "1")+encode("PING"))
	<-asked
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(t.Context()) }()
	if got := idle.rest(); got != nil {
		t.Errorf("the idle connection gets %q", got)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		c.Close()
		t.Error("a new connection was accepted")
	}
	select {
	case err := <-done:
		t.Fatalf("Shutdown = %v while a decision is made", err)
	default:
	}
	close(answer)
	if got := busy.rest(); len(got) != 2 || got[0] != "[0 1 0 -1 0]" || got[1] != "PONG" {
		t.Errorf("the busy connection gets %q, want both answers", got)
	}
	if err := <-done; err != nil {
		t.Errorf("Shutdown = %v", err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown again = %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close after that = %v", err)
	}
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Error(err)
	} else if err := s.Serve(l); err != nil {
		t.Errorf("Serve after that = %v, want nil at once", err)
	}
}

// TestShutdownCutsOff checks that connections are closed when the context of Shutdown
// ends.
func TestShutdownCutsOff(t *testing.T) {
	s, addr := start(t, respd.Config{})
	c := dial(t, addr)
	c.do(t, "PING")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) && err != nil {
		t.Errorf("Shutdown = %v", err)
	}
	c.rest()
}

func TestMaxConns(t *testing.T) {
	_, addr := start(t, respd.Config{MaxConns: 2})
	a, b := dial(t, addr), dial(t, addr)
	a.do(t, "PING")
	b.do(t, "PING")
	if got := dial(t, addr).rest(); len(got) != 1 || got[0] != "-ERR max number of clients reached" {
		t.Errorf("a third = %q", got)
	}
	a.do(t, "QUIT")
	a.rest()
	for deadline := time.Now().Add(patient); ; { // its end is noticed a little later
		c := dial(t, addr)
		c.send(t, "PING\r\n")
		if got, _ := read(c.r); got == "PONG" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the place of one that left is not given to another")
		}
	}
	if info := b.do(t, "INFO", "stats"); strings.Contains(info, "rejected_connections:0") {
		t.Errorf("INFO = %s", info)
	}
}

func TestTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pair := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	_, addr := start(t, respd.Config{TLS: &tls.Config{Certificates: []tls.Certificate{*pair}}})
	roots := x509.NewCertPool()
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots.AddCert(leaf)
	conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: roots})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := &client{conn, bufio.NewReader(conn)}
	if got := c.do(t, "CL.THROTTLE", "k", "0", "1", "60"); got != "[0 1 0 -1 60]" {
		t.Errorf("over TLS = %s", got)
	}
	plain := dial(t, addr)
	plain.send(t, encode("PING"))
	if got := plain.rest(); got != nil {
		t.Errorf("without TLS = %q", got)
	}
}

// TestAcceptErrors checks that Serve retries after a temporary error of Accept.
func TestAcceptErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := respd.New(respd.Config{Store: &fake{}})
		if err != nil {
			t.Fatal(err)
		}
		p := newPipes()
		begun := time.Now()
		go s.Serve(&faulty{pipes: p, faults: 5})
		c := p.dial()
		if got := c.do(t, "PING"); got != "PONG" {
			t.Errorf("after 5 faults, PING = %s", got)
		}
		if took := time.Since(begun); took < 100*time.Millisecond || took > time.Second {
			t.Errorf("5 faults took %v, want pauses that grow", took)
		}
		s.Close()
	})
	s, err := respd.New(respd.Config{Store: &fake{}})
	if err != nil {
		t.Fatal(err)
	}
	p := newPipes()
	p.Close()
	if err := s.Serve(p); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve on a closed listener = %v, want an error", err)
	}
	s.Close()
}

type faulty struct {
	*pipes
	faults int
}

func (f *faulty) Accept() (net.Conn, error) {
	if f.faults--; f.faults >= 0 {
		return nil, errors.New("too many open files")
	}
	return f.pipes.Accept()
}

func TestConfig(t *testing.T) {
	for want, c := range map[string]respd.Config{
		"respd: Store: invalid: want a store, got nil":     {},
		"respd: MaxConns: invalid: want 0 or more, got -1": {Store: &fake{}, MaxConns: -1},
	} {
		if _, err := respd.New(c); !errors.Is(err, weir.ErrInvalid) || err.Error() != want {
			t.Errorf("New = %v, want %s", err, want)
		}
	}
}

// TestShutdownInPipelines checks that clients that send pipelines and wait for the
// replies get all of them while the server shuts down.
func TestShutdownInPipelines(t *testing.T) {
	const size, clients = 500, 4 // few enough for a busy machine: the server reads for 2 s at most
	s, addr := start(t, respd.Config{})
	pipeline := strings.Repeat(encode("CL.THROTTLE", "k", "1000000", "1000000", "1"), size)
	ends, begun := make(chan int, clients), make(chan struct{}, clients)
	for range clients {
		c := dial(t, addr)
		go func() {
			for first := true; ; first = false {
				go io.WriteString(c, pipeline)
				n := 0
				for ; n < size; n++ {
					if _, err := read(c.r); err != nil {
						ends <- n
						return
					}
				}
				if first {
					begun <- struct{}{}
				}
			}
		}()
	}
	for range clients {
		<-begun
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown = %v", err)
	}
	for range clients {
		if n := <-ends; n != 0 {
			t.Errorf("a pipeline of %d got %d replies", size, n)
		}
	}
}

// TestShutdownOfFlood checks that a client that never stops sending does not delay
// Shutdown for ever.
func TestShutdownOfFlood(t *testing.T) {
	s, addr := start(t, respd.Config{})
	c := dial(t, addr)
	go io.Copy(io.Discard, c.r)
	go func() {
		for text := strings.Repeat("PING\r\n", 1000); ; {
			if _, err := io.WriteString(c, text); err != nil {
				return
			}
		}
	}()
	begun := time.Now()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown = %v", err)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("Shutdown took %v", took)
	}
}
