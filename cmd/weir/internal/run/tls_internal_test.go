package run

import (
	"crypto/tls"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/internal/certtest"
)

// TestClientCertificates checks that every interface can require client certificates, and may
// then be reached from other machines.
func TestClientCertificates(t *testing.T) {
	cert, pool := certtest.New(t)
	other, _ := certtest.New(t)
	dir := t.TempDir()
	files := config.TLS{CertFile: filepath.Join(dir, "cert"), KeyFile: filepath.Join(dir, "key"), ClientCAFile: filepath.Join(dir, "cert")}
	certtest.Write(t, cert, files.CertFile, files.KeyFile)
	c := settings(t, "http://127.0.0.1:1", perClient("1/s"))
	c.HTTP = config.HTTP{Listen: "0.0.0.0:0", TLS: files}
	c.GRPC = config.GRPC{Listen: "0.0.0.0:0", TLS: files, Config: limitsFile(t)}
	c.RESP = config.RESP{Listen: "0.0.0.0:0", TLS: files}
	c.Admin = config.Admin{Listen: "0.0.0.0:0", TLS: files}
	p := with(t, c, gone{}, discard())
	const get = "GET /healthz HTTP/1.1\r\nHost: weir.example\r\n\r\n"
	for _, test := range []struct {
		l                   *listener
		protocol, ask, want string
	}{
		{p.api, "http/1.1", get, "HTTP/1.1 200"},
		{p.admin, "http/1.1", get, "HTTP/1.1 200"},
		{p.resp, "", "PING\r\n", "+PONG"},
		{p.grpc, "h2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", "\x00\x00"},
	} {
		for name, certs := range map[string][]tls.Certificate{"its": {*cert}, "another": {*other}, "no": nil} {
			_, port, _ := net.SplitHostPort(test.l.bound.String())
			conn, err := tls.DialWithDialer(&net.Dialer{Timeout: patient}, "tcp", "127.0.0.1:"+port, &tls.Config{RootCAs: pool, Certificates: certs, NextProtos: strings.Fields(test.protocol)})
			got := make([]byte, len(test.want))
			if err == nil {
				conn.SetDeadline(time.Now().Add(patient))
				io.WriteString(conn, test.ask)
				_, err = io.ReadFull(conn, got)
				conn.Close()
			}
			if ok := err == nil && string(got) == test.want; ok != (name == "its") {
				t.Errorf("%s with %s certificate: %q, %v", test.l.name, name, got, err)
			}
		}
	}
}
