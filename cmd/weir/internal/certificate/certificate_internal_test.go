package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/floodweir/weir/internal/certtest"
)

// TestCertificateIsRenewed checks that new files come into use after a while, that
// invalid files do not, and that a handshake does not read files.
func TestCertificateIsRenewed(t *testing.T) {
	dir := t.TempDir()
	c := &keyPair{Files: Files{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}, log: slog.New(slog.DiscardHandler)}
	start := time.Now()
	written := start
	write := func(cert *tls.Certificate) {
		certtest.Write(t, cert, c.CertFile, c.KeyFile)
		written = written.Add(time.Minute)
		for _, name := range []string{c.CertFile, c.KeyFile} {
			if err := os.Chtimes(name, written, written); err != nil {
				t.Fatal(err)
			}
		}
	}
	is := func(step string, at time.Duration, want *tls.Certificate) {
		t.Helper()
		if got, _ := c.at(start.Add(at)); string(got.Certificate[0]) != string(want.Certificate[0]) {
			t.Errorf("%s: another certificate is in use", step)
		}
	}
	if err := c.load(start); err == nil {
		t.Error("load without files = nil, want an error")
	}
	first, _ := certtest.New(t)
	write(first)
	if err := c.load(start); err != nil {
		t.Fatal(err)
	}
	second, _ := certtest.New(t)
	write(second)
	is("at once", time.Second, first)
	is("after a while", recheck, second)
	if err := os.WriteFile(c.CertFile, []byte("half of"), 0o600); err != nil {
		t.Fatal(err)
	}
	is("a broken one", 2*recheck, second)
	third, _ := certtest.New(t)
	write(third)
	is("fixed", 3*recheck, third)
	if err := os.Remove(c.KeyFile); err != nil {
		t.Fatal(err)
	}
	is("removed", 4*recheck, third)
}

// TestAuthoritiesAreRenewed checks that new authorities of clients come into use.
func TestAuthoritiesAreRenewed(t *testing.T) {
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca")
	first, _ := certtest.New(t)
	second, _ := certtest.New(t)
	certtest.Write(t, first, filepath.Join(dir, "cert"), filepath.Join(dir, "key"))
	certtest.Write(t, first, ca, filepath.Join(dir, "x"))
	p, err := newKeyPair(Files{CertFile: filepath.Join(dir, "cert"), KeyFile: filepath.Join(dir, "key"), ClientCAFile: ca}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	trusted := func(c *tls.Certificate) bool {
		return p.verify(state(t, c)) == nil
	}
	if !trusted(first) || trusted(second) || p.verify(tls.ConnectionState{}) == nil {
		t.Error("want the first certificate alone to be trusted")
	}
	certtest.Write(t, second, ca, filepath.Join(dir, "x"))
	if later := time.Now().Add(time.Minute); os.Chtimes(ca, later, later) != nil {
		t.Fatal("no times")
	}
	p.at(time.Now().Add(2 * recheck))
	if trusted(first) || !trusted(second) {
		t.Error("want the second certificate alone to be trusted after the change")
	}
}

// TestClientName checks that the certificate of a client needs the configured name.
func TestClientName(t *testing.T) {
	cert, authorities := certtest.New(t)
	for name, want := range map[string]bool{"": true, "127.0.0.1": true, "other.example": false} {
		p := &keyPair{Files: Files{ClientName: name}, clients: authorities, checked: time.Now()}
		if err := p.verify(state(t, cert)); (err == nil) != want {
			t.Errorf("ClientName %q: verify() = %v", name, err)
		}
	}
}

// state returns a connection of a client with the certificate c.
func state(t *testing.T, c *tls.Certificate) tls.ConnectionState {
	t.Helper()
	leaf, err := x509.ParseCertificate(c.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
}
