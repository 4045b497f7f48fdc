package respd_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/respd"
)

// TestProtocol sends raw bytes. Bytes that are not RESP get an error, and the connection
// is closed.
func TestProtocol(t *testing.T) {
	_, addr := start(t, respd.Config{})
	long := strings.Repeat("x", 70_000)
	for _, test := range []struct {
		name, send string
		want       []string
	}{
		{"inline", "PING\r\n", []string{"PONG"}},
		{"inline without CR", "PING\n", []string{"PONG"}},
		{"inline with spaces and quotes", "  ECHO \"a b\\n\"  \r\n", []string{`"a b\n"`}},
		{"empty lines", "\r\n\n \r\nPING\r\n", []string{"PONG"}},
		{"inline after multibulk", encode("PING") + "PING\r\n" + encode("ECHO", "x"), []string{"PONG", "PONG", `"x"`}},
		{"no commands", "*0\r\n*-1\r\n" + encode("PING"), []string{"PONG"}},
		{"binary", encode("ECHO", "\x00\r\n\xff"), []string{`"\x00\r\n\xff"`}},
		{"unbalanced quotes", "ECHO \"a\r\n" + encode("PING"), []string{"-ERR Protocol error: unbalanced quotes in request"}},
		{"after a good one", encode("PING") + encode("CL.THROTTLE", "before", "0", "1", "60") + "*x\r\n", []string{"PONG", "[0 1 0 -1 60]", "-ERR Protocol error: invalid multibulk length"}},
		{"no dollar", "*1\r\n:4\r\n", []string{"-ERR Protocol error: expected '$', got ':'"}},
		{"line end for dollar", "*1\r\n\r\n", []string{`-ERR Protocol error: expected '$', got '\r'`}},
		{"count without CR", "*1\n$4\r\nPING\r\n", []string{"-ERR Protocol error: invalid multibulk length"}},
		{"count of nothing", "*\r\n", []string{"-ERR Protocol error: invalid multibulk length"}},
		{"count with a sign", "*+1\r\n$4\r\nPING\r\n", []string{"-ERR Protocol error: invalid multibulk length"}},
		{"count too large", "*1025\r\n", []string{"-ERR Protocol error: invalid multibulk length"}},
		{"count of 2^31-1", "*2147483647\r\n", []string{"-ERR Protocol error: invalid multibulk length"}},
		{"count beyond 64 bits", "*18446744073709551617\r\n", []string{"-ERR Protocol error: invalid multibulk length"}},
		{"count that does not end", "*" + strings.Repeat("1", 100), []string{"-ERR Protocol error: invalid multibulk length"}},
		{"length of 2^63-1", "*1\r\n$9223372036854775807\r\nPING\r\n", []string{"-ERR Protocol error: invalid bulk length"}},
		{"length below 0", "*1\r\n$-1\r\n", []string{"-ERR Protocol error: invalid bulk length"}},
		{"length of 512 MB", "*2\r\n$4\r\nECHO\r\n$536870912\r\n", []string{"-ERR Protocol error: invalid bulk length"}},
		{"length too large", "*2\r\n$4\r\nECHO\r\n$65537\r\n", []string{"-ERR Protocol error: invalid bulk length"}},
		{"length too small", "*1\r\n$3\r\nPING\r\n", []string{"-ERR Protocol error: invalid bulk length"}},
		{"length that is none", "*1\r\n$x\r\nPING\r\n", []string{"-ERR Protocol error: invalid bulk length"}},
		{"three of the longest", encode("ECHO", long[:65536], long[:65536]), []string{"-ERR Protocol error: too big request"}},
		{"inline too long", long, []string{"-ERR Protocol error: too big inline request"}},
		{"inline too long with an end", long + "\r\n", []string{"-ERR Protocol error: too big inline request"}},
		{"quit", encode("QUIT") + encode("PING"), []string{"OK"}},
		{"browser", "POST / HTTP/1.1\r\nHost: x\r\n\r\nCL.THROTTLE web 0 1 60\r\n", nil},
		{"browser asks", "GET / HTTP/1.1\r\nHost: x\r\n\r\nCL.THROTTLE web 0 1 60\r\n", nil},
		{"not asked by browsers", "CL.THROTTLE web 0 1 60\r\n", []string{"[0 1 0 -1 60]"}},
	} {
		c := dial(t, addr)
		go func() { // as much as it takes, while the answer is read
			io.WriteString(c.Conn, test.send)
			c.Conn.(*net.TCPConn).CloseWrite()
		}()
		got := c.rest()
		if fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%s: %.80q = %q, want %q", test.name, test.send, got, test.want)
		}
		c.Close()
	}
	if got := dial(t, addr).do(t, "ECHO", long[:65536]); len(got) != 65538 {
		t.Errorf("the longest bulk is answered by %d bytes", len(got))
	}
}

// TestBrowserIsLogged checks that an HTTP request of a browser is logged.
func TestBrowserIsLogged(t *testing.T) {
	var mu sync.Mutex
	var log bytes.Buffer
	s, addr := start(t, respd.Config{Log: slog.New(slog.NewTextHandler(locked{&mu, &log}, nil))})
	c := dial(t, addr)
	c.send(t, "POST / HTTP/1.1\r\n")
	c.rest()
	s.Close()
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(log.String(), "HTTP request on the RESP interface") {
		t.Errorf("the log is %q", log.String())
	}
}

type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// TestUnauthenticated checks the tighter bounds for a client that is not authenticated.
func TestUnauthenticated(t *testing.T) {
	_, addr := start(t, respd.Config{Password: "x"})
	for send, want := range map[string]string{
		"*11\r\n":                        "-ERR Protocol error: unauthenticated multibulk length",
		"*2\r\n$4\r\nAUTH\r\n$16385\r\n": "-ERR Protocol error: unauthenticated bulk length",
	} {
		c := dial(t, addr)
		c.send(t, send)
		if got := c.rest(); len(got) != 1 || got[0] != want {
			t.Errorf("%q = %q, want %q", send, got, want)
		}
	}
	c := dial(t, addr)
	c.do(t, "AUTH", "x")
	if got := c.do(t, "ECHO", strings.Repeat("x", 16385)); len(got) != 16387 {
		t.Errorf("with the password, a longer text = %.80q", got)
	}
}

// heap returns the bytes in use after a collection.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// TestAnnouncedLengths checks that 100 clients that announce 512 MB each, and send 60 kB
// of it, cost little memory.
func TestAnnouncedLengths(t *testing.T) {
	_, addr := start(t, respd.Config{})
	before := heap()
	for range 100 {
		dial(t, addr).send(t, "*2\r\n$4\r\nECHO\r\n$536870912\r\n")
	}
	var open []*client
	for range 100 {
		c := dial(t, addr)
		c.send(t, "*3\r\n$4\r\nECHO\r\n$65536\r\n"+strings.Repeat("x", 60_000))
		open = append(open, c)
	}
	if got := dial(t, addr).do(t, "PING"); got != "PONG" {
		t.Fatalf("PING = %s", got)
	}
	most := int64(0)
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); {
		most = max(most, heap()-before)
	}
	t.Logf("100 connections announced 512 MB and 100 sent 60 kB of a command: %d MB more in use", most>>20)
	if most > 40<<20 {
		t.Errorf("%d MB more in use, want at most 40", most>>20)
	}
	for _, c := range open {
		c.Close()
	}
}

// TestUnfinishedCommands checks the bound on incomplete commands of all clients together.
// A client beyond it gets an error.
func TestUnfinishedCommands(t *testing.T) {
	_, addr := start(t, respd.Config{})
	const n = 700 // of 128 kB each
	head := "*3\r\n$4\r\nECHO\r\n$65536\r\n" + strings.Repeat("x", 65536) + "\r\n$65000\r\n"
	refused := make(chan string, n)
	for range n {
		c := dial(t, addr)
		c.send(t, head)
		go func() {
			if got := c.rest(); len(got) > 0 {
				refused <- got[0]
			}
		}()
	}
	if got := <-refused; got != "-ERR too many incomplete commands of other clients, try again" {
		t.Errorf("the client beyond the bound got %q", got)
	}
	if got := dial(t, addr).do(t, "CL.THROTTLE", "k", "0", "1", "60"); got != "[0 1 0 -1 60]" {
		t.Errorf("a small command meanwhile = %s", got)
	}
}

// TestEndlessPipeline checks that a pipeline whose reads never end at the end of a
// command does not grow the buffer.
func TestEndlessPipeline(t *testing.T) {
	_, addr := start(t, respd.Config{})
	c := dial(t, addr)
	c.SetDeadline(time.Now().Add(2 * patient))
	one := encode("ECHO", strings.Repeat("x", 77))
	text := strings.Repeat(one, 1000)
	before := heap()
	const rounds = 200
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for range rounds {
			io.WriteString(c.Conn, text)
		}
	}()
	for range rounds * 1000 {
		if _, err := read(c.r); err != nil {
			t.Fatal(err)
		}
	}
	<-sent
	if more := heap() - before; more > 4<<20 {
		t.Errorf("after %d MB of commands, %d kB more are in use", rounds*len(text)>>20, more>>10)
	}
}
