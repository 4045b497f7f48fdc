package run

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/config"
)

// writePEM writes a certificate and its key to files.
func writePEM(t *testing.T, cert *tls.Certificate, certFile, keyFile string) {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: cert.Certificate[0]},
		keyFile:  {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestClientCertificates checks that every interface can require client certificates, and may
// then be reached from other machines.
func TestClientCertificates(t *testing.T) {
	cert, pool := newCertificate(t)
	other, _ := newCertificate(t)
	dir := t.TempDir()
	files := config.TLS{CertFile: filepath.Join(dir, "cert"), KeyFile: filepath.Join(dir, "key"), ClientCAFile: filepath.Join(dir, "cert")}
	writePEM(t, cert, files.CertFile, files.KeyFile)
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

// TestAuthoritiesAreRenewed checks that new authorities of clients come into use.
func TestAuthoritiesAreRenewed(t *testing.T) {
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca")
	first, _ := newCertificate(t)
	second, _ := newCertificate(t)
	writePEM(t, first, filepath.Join(dir, "cert"), filepath.Join(dir, "key"))
	writePEM(t, first, ca, filepath.Join(dir, "x"))
	p, err := newKeyPair(filepath.Join(dir, "cert"), filepath.Join(dir, "key"), ca, discard())
	if err != nil {
		t.Fatal(err)
	}
	trusted := func(c *tls.Certificate) bool {
		leaf, err := x509.ParseCertificate(c.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return p.verify(tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}) == nil
	}
	if !trusted(first) || trusted(second) || p.verify(tls.ConnectionState{}) == nil {
		t.Error("want the first certificate alone to be trusted")
	}
	writePEM(t, second, ca, filepath.Join(dir, "x"))
	if later := time.Now().Add(time.Minute); os.Chtimes(ca, later, later) != nil {
		t.Fatal("no times")
	}
	p.at(time.Now().Add(2 * recheck))
	if trusted(first) || !trusted(second) {
		t.Error("want the second certificate alone to be trusted after the change")
	}
}
