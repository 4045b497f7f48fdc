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

// TestRefusedBodyThatNeverComes checks that a refused client that never sends its body
// does not hold a connection.
func TestRefusedBodyThatNeverComes(t *testing.T) {
	refuse := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(429) })
	s := httptest.NewServer(limitFirstByte(50*time.Millisecond, refuse))
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

// TestQueuedStreamKeepsItsBody checks that a stream of HTTP/2 keeps its body when it
// waits in a queue for longer than a body may pause.
func TestQueuedStreamKeepsItsBody(t *testing.T) {
	t.Parallel()
	const patience = time.Second
	pr, pw := io.Pipe()
	turnCame := make(chan struct{})
	go func() {
		io.WriteString(pw, "bo")
		<-turnCame
		io.WriteString(pw, "dy")
		pw.Close()
	}()
	queue := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		turn := time.NewTimer(patience + 100*time.Millisecond)
		defer turn.Stop()
		<-turn.C
		close(turnCame)
		if _, err := io.Copy(w, r.Body); err != nil {
			t.Errorf("the body after its wait: %v", err)
		}
	})
	s := httptest.NewUnstartedServer(limitFirstByte(patience, queue))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	defer s.Close()
	tr := &http.Transport{Protocols: s.Config.Protocols}
	defer tr.CloseIdleConnections()
	res, err := (&http.Client{Transport: tr}).Post(s.URL, "text/plain", pr)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "body" || res.ProtoMajor != 2 {
		t.Errorf("%s: %q, %v, want the body over HTTP/2", res.Proto, body, err)
	}
}

// deadlines is a ResponseWriter that records the read deadline of its connection.
type deadlines struct {
	http.ResponseWriter
	read time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.read = t
	return nil
}

// TestBodyThatLimitsRead checks that the deadline of the first bytes ends with the body: the server
// would take it for the end of a client whose request waits.
func TestBodyThatLimitsRead(t *testing.T) {
	w := &deadlines{ResponseWriter: httptest.NewRecorder()}
	r := httptest.NewRequest("POST", "/", io.LimitReader(zeros{}, 5000))
	limitFirstByte(time.Minute, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if io.ReadFull(r.Body, make([]byte, 4000)); w.read.IsZero() {
			t.Error("the rest of the body has no deadline")
		}
		if io.ReadAll(r.Body); !w.read.IsZero() {
			t.Error("the connection has a deadline after the body")
		}
	})).ServeHTTP(w, r)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
