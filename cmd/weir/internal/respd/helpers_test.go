package respd_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/respd"
	"github.com/floodweir/weir/memstore"
)

// patient is longer than a busy machine takes for anything.
const patient = 2 * time.Minute

// start runs a server and returns it with its address.
func start(t testing.TB, c respd.Config) (*respd.Server, string) {
	t.Helper()
	if c.Store == nil {
		c.Store = memory(t, nil)
	}
	s, err := respd.New(c)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-ended; err != nil {
			t.Errorf("Serve = %v, want nil after Close", err)
		}
	})
	return s, l.Addr().String()
}

// memory is a store in memory whose clock now sets, if it is not nil.
func memory(t testing.TB, now *atomic.Int64) *memstore.Store {
	t.Helper()
	c := memstore.Config{}
	if now != nil {
		c.Clock = now.Load
	}
	s, err := memstore.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// A client sends bytes and reads replies.
type client struct {
	net.Conn
	r *bufio.Reader
}

func dial(t testing.TB, addr string) *client {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patient))
	return &client{c, bufio.NewReader(c)}
}

// send sends bytes as they are.
func (c *client) send(t testing.TB, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatalf("send %.60q: %v", text, err)
	}
}

// do sends a command and reads its reply.
func (c *client) do(t testing.TB, args ...string) string {
	t.Helper()
	c.send(t, encode(args...))
	reply, err := read(c.r)
	if err != nil {
		t.Fatalf("%.60q: %v", args, err)
	}
	return reply
}

// rest is the replies until the connection ends.
func (c *client) rest() (replies []string) {
	for {
		reply, err := read(c.r)
		if err != nil {
			return replies
		}
		replies = append(replies, reply)
	}
}

func encode(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.String()
}

// read reads one reply as text: 1, OK, "bulk", [1 2], {"a" 1}, ~[a b], -error, null.
func read(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	body, ok := strings.CutSuffix(line[1:], "\r\n")
	if !ok || strings.ContainsAny(body, "\r\n") {
		return "", fmt.Errorf("the line %q", line)
	}
	n, _ := strconv.Atoi(body)
	list := func(n int) (string, error) {
		parts := make([]string, n)
		for i := range parts {
			var err error
			if parts[i], err = read(r); err != nil {
				return "", err
			}
		}
		return strings.Join(parts, " "), nil
	}
	switch line[0] {
	case '+', ':':
		return body, nil
	case '-':
		return line[:len(line)-2], nil
	case '_':
		return "null", nil
	case '$', '=':
		if n < 0 {
			return "null", nil
		}
		b := make([]byte, n+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return "", err
		}
		return strconv.Quote(string(b[:n])), nil
	case '*':
		text, err := list(n)
		return "[" + text + "]", err
	case '~':
		text, err := list(n)
		return "~[" + text + "]", err
	case '%':
		text, err := list(2 * n)
		return "{" + text + "}", err
	}
	return "", fmt.Errorf("the line %q", line)
}

// A fake is a store that calls do.
type fake struct {
	do func(r weir.Request) (weir.Decision, error)
}

func (f *fake) Do(_ context.Context, r weir.Request) (weir.Decision, error) { return f.do(r) }

func (f *fake) DoAll(context.Context, []weir.Request, []weir.Decision) (bool, error) {
	panic("DoAll called, want only Do")
}
