package run

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestCertificateIsRenewed checks that new files come into use after a while, that
// invalid files do not, and that a handshake does not read files.
func TestCertificateIsRenewed(t *testing.T) {
	dir := t.TempDir()
	c := &keyPair{certFile: filepath.Join(dir, "cert.pem"), keyFile: filepath.Join(dir, "key.pem"), log: slog.New(slog.DiscardHandler)}
	start := time.Now()
	written := start
	write := func(cert *tls.Certificate) {
		key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		written = written.Add(time.Minute)
		for name, block := range map[string]*pem.Block{
			c.certFile: {Type: "CERTIFICATE", Bytes: cert.Certificate[0]},
			c.keyFile:  {Type: "PRIVATE KEY", Bytes: key},
		} {
			if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
				t.Fatal(err)
			}
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
	first, _ := newCertificate(t)
	write(first)
	if err := c.load(start); err != nil {
		t.Fatal(err)
	}
	second, _ := newCertificate(t)
	write(second)
	is("at once", time.Second, first)
	is("after a while", recheck, second)
	if err := os.WriteFile(c.certFile, []byte("half of"), 0o600); err != nil {
		t.Fatal(err)
	}
	is("a broken one", 2*recheck, second)
	third, _ := newCertificate(t)
	write(third)
	is("fixed", 3*recheck, third)
	if err := os.Remove(c.keyFile); err != nil {
		t.Fatal(err)
	}
	is("removed", 4*recheck, third)
}
