package run

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
)

// certificate returns the function for tls.Config.GetCertificate that serves the key pair
// of two files, or nil without files. Flags are the names of the flags, for errors.
func certificate(certFile, keyFile, flags string, log *slog.Logger) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	if certFile == "" {
		return nil, nil
	}
	pair, err := newKeyPair(certFile, keyFile, log)
	if err != nil {
		return nil, fmt.Errorf("%s: %s, %s: %w", flags, certFile, keyFile, err)
	}
	return pair.get, nil
}

// authorities reads the authorities of client certificates; nil without a file.
func authorities(file, flag string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: %s: got no certificate, want certificates in PEM", flag, file)
	}
	return pool, nil
}

// A tlsFiles names the files of TLS of a listener, and in errors its flags: --PREFIXtls-cert.
type tlsFiles struct{ listener, prefix, cert, key, clientCA string }

// config returns the configuration of TLS, or nil without a certificate. With a clientCA,
// clients need a certificate.
func (f tlsFiles) config(log *slog.Logger) (*tls.Config, error) {
	get, err := certificate(f.cert, f.key, fmt.Sprintf("%s: --%stls-cert, --%[2]stls-key", f.listener, f.prefix), log)
	if err != nil || get == nil {
		return nil, err
	}
	c := &tls.Config{GetCertificate: get, MinVersion: tls.VersionTLS12}
	if c.ClientCAs, err = authorities(f.clientCA, fmt.Sprintf("%s: --%sclient-ca", f.listener, f.prefix)); c.ClientCAs != nil {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, err
}
