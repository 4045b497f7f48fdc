// Package certificate reads the certificate of a listener and the authorities of its clients, and
// reads them again when the files change.
package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
)

// authorities reads the authorities of client certificates; nil without a file.
func authorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: got no certificate, want certificates in PEM", file)
	}
	return pool, nil
}

// Files names the files of TLS of a listener. CertFile and KeyFile are set both or neither.
type Files struct {
	CertFile, KeyFile string
	ClientCAFile      string // the authorities of client certificates; "": clients need none
	ClientName        string // a DNS name that client certificates must have; "": any
}

// Config returns the configuration of TLS of a listener, or nil without a certificate. With a
// ClientCAFile, clients need a certificate. Changes of the files come into use within 10 s. prefix
// is that of the flags, for errors. The configuration is safe for concurrent use.
func Config(listener, prefix string, f Files, log *slog.Logger) (*tls.Config, error) {
	if f.CertFile == "" {
		return nil, nil
	}
	if _, err := authorities(f.ClientCAFile); err != nil {
		return nil, fmt.Errorf("%s: --%sclient-ca: %w", listener, prefix, err)
	}
	p, err := newKeyPair(f, log)
	if err != nil {
		return nil, fmt.Errorf("%s: --%stls-cert, --%[2]stls-key: %s, %s: %w", listener, prefix, f.CertFile, f.KeyFile, err)
	}
	c := &tls.Config{GetCertificate: p.get, MinVersion: tls.VersionTLS12}
	if f.ClientCAFile != "" {
		// crypto/tls verifies by authorities that cannot change, so p does it.
		c.ClientAuth, c.VerifyConnection = tls.RequireAnyClientCert, p.verify
	}
	return c, nil
}
