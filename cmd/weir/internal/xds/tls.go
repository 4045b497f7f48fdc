package xds

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// TLS names files in PEM, which are read for each stream.
type TLS struct {
	// CertFile and KeyFile are those of the client; without them it has no certificate.
	CertFile, KeyFile string

	// CAFile has the authorities of the server, beside those of the system.
	CAFile string

	// ServerName is the name in the certificate of the server; the host of Server if empty.
	ServerName string
}

func (t *TLS) credentials() (credentials.TransportCredentials, error) {
	if t == nil {
		return insecure.NewCredentials(), nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CertFile != "" && t.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("xds: %s, %s: %w", t.CertFile, t.KeyFile, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("xds: %w", err)
		}
		if c.RootCAs, err = x509.SystemCertPool(); err != nil {
			c.RootCAs = x509.NewCertPool()
		}
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("xds: %s: got no certificate, want certificates in PEM", t.CAFile)
		}
	}
	return credentials.NewTLS(c), nil
}
