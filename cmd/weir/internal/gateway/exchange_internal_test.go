package gateway

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A client that is refused and never sends its body does not hold a connection.
func TestRefusedBodyThatNeverComes(t *testing.T) {
	refuse := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(429) })
	s := httptest.NewServer(guardBody(50*time.Millisecond, refuse))
	defer s.Close()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")
	br := bufio.NewReader(conn)
	res, err := http.ReadResponse(br, nil)
	if err != nil || res.StatusCode != 429 {
		t.Fatalf("got %v, %v, want 429", res, err)
	}
	if _, err := br.ReadByte(); err != io.EOF {
		t.Errorf("the connection gives %v, want its end", err)
	}
}
