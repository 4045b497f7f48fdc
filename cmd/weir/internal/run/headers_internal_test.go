package run

import (
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener for connections of a test.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestHeadersWithoutEnd checks that an HTTP/2 client that never ends its headers, and sends
// nothing more, is disconnected.
func TestHeadersWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handled := false
		s := newHTTPServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handled = true }), 0, nil, discard())
		l := make(pipes, 1)
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		client, server := net.Pipe()
		l <- server
		start, ended := time.Now(), make(chan time.Duration)
		go func() {
			io.Copy(io.Discard, client)
			ended <- time.Since(start)
		}()
		io.WriteString(client, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
		io.WriteString(client, "\x00\x00\x00\x04\x00\x00\x00\x00\x00")             // SETTINGS
		io.WriteString(client, "\x00\x00\x03\x01\x01\x00\x00\x00\x01\x82\x86\x84") // HEADERS with END_STREAM alone
		if after := <-ended; after > idleTimeout+10*time.Second {
			t.Errorf("the connection was closed after %v, want %v", after, idleTimeout)
		}
		if handled {
			t.Error("a request without the end of its headers was handled")
		}
		client.Close()
		close(l)
		s.Shutdown(t.Context())
		<-served
	})
}
