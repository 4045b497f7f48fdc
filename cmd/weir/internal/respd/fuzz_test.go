package respd_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/respd"
)

// FuzzServer sends any bytes, at once and in two parts. The server neither panics nor
// hangs, what it answers is RESP, and a cut makes no difference to how much it answers.
func FuzzServer(f *testing.F) {
	for _, seed := range []string{
		"PING\r\n", "\r\n", "*1\r\n$4\r\nPING\r\n", "*0\r\n*-1\r\n", "*1\r\n$9223372036854775807\r\n", "*2147483647\r\n",
		"*2\r\n$4\r\nECHO\r\n$536870912\r\n", "ECHO \"a\\x\" 'b'\r\n", "ECHO \"a\r\n", "POST / HTTP/1.1\r\nHost: x\r\n\r\n", "*1\r\n$-1\r\n", "*\n", "$4\r\nPING\r\n",
		"*3\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$7\r\nSETNAME\r\n", "*1\r\n$4\r\nPINGxx", "+OK\r\n", "%1\r\n", "\x00\xff\r\n",
	} {
		f.Add([]byte(seed), uint16(len(seed)/2), false)
	}
	traces, _ := filepath.Glob("testdata/*.trace")
	for _, name := range traces {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		var all strings.Builder
		for line := range strings.Lines(string(data)) {
			if command, ok := strings.CutPrefix(line, "> "); ok {
				all.WriteString(encode(words(command)...))
			}
		}
		f.Add([]byte(all.String()), uint16(100), strings.Contains(name, "password"))
	}
	serve := func(password string) *pipes {
		s, err := respd.New(respd.Config{Store: memory(f, nil), Password: password})
		if err != nil {
			f.Fatal(err)
		}
		p := newPipes()
		go s.Serve(p)
		f.Cleanup(func() { s.Close() })
		return p
	}
	open, guarded := serve(""), serve("s3cret")
	f.Fuzz(func(t *testing.T, data []byte, cut uint16, password bool) {
		p := open
		if password {
			p = guarded
		}
		whole := kinds(t, p, data)
		at := min(int(cut), len(data))
		parts := kinds(t, p, data[:at], data[at:])
		if lower := bytes.ToLower(data); bytes.Contains(lower, []byte("post")) || bytes.Contains(lower, []byte("host:")) {
			return // what was answered before HTTP is found out depends on when it came
		}
		if whole != parts {
			t.Errorf("%q is answered by %s, and cut at %d by %s", data, whole, at, parts)
		}
	})
}

// A script is a connection that sends its parts, one a Read, and then ends.
type script struct {
	net.Conn // nil: what is not written here is not used
	parts    [][]byte
	replies  bytes.Buffer
	ended    chan struct{}
	once     sync.Once
}

func (s *script) Read(b []byte) (int, error) {
	for len(s.parts) > 0 && len(s.parts[0]) == 0 {
		s.parts = s.parts[1:]
	}
	if len(s.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(b, s.parts[0])
	s.parts[0] = s.parts[0][n:]
	return n, nil
}

func (s *script) Write(b []byte) (int, error)      { return s.replies.Write(b) }
func (s *script) Close() error                     { s.once.Do(func() { close(s.ended) }); return nil }
func (s *script) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (s *script) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

// kinds is the first letters of the replies to what is sent in parts.
func kinds(t *testing.T, p *pipes, parts ...[]byte) string {
	sent := bytes.Join(parts, nil)
	s := &script{parts: parts, ended: make(chan struct{})}
	p.conns <- s
	select {
	case <-s.ended:
	case <-time.After(patient):
		t.Fatalf("%q: the server hangs", sent)
	}
	all := s.replies.Bytes()
	r := bufio.NewReader(bytes.NewReader(all))
	var b strings.Builder
	for {
		first, err := r.Peek(1)
		if err != nil {
			return b.String()
		}
		b.WriteByte(first[0])
		if _, err := read(r); err != nil {
			t.Fatalf("%q is answered by %q, which is no RESP: %v", sent, all, err)
		}
	}
}
