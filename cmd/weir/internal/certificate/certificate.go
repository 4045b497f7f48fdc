package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"
)

// recheck is the least time between two checks whether the files of a certificate changed.
const recheck = 10 * time.Second

// A keyPair is a certificate and its private key, and the authorities of clients. It reads the
// files again when they change, so a renewal needs no restart. If they cannot be read, it keeps
// the old ones.
type keyPair struct {
	Files
	log *slog.Logger

	mu       sync.Mutex
	cert     *tls.Certificate
	clients  *x509.CertPool
	modified [3]time.Time // modification times of the files
	checked  time.Time
}

// newKeyPair reads the files.
func newKeyPair(f Files, log *slog.Logger) (*keyPair, error) {
	p := &keyPair{Files: f, log: log}
	return p, p.load(time.Now())
}

// verify implements tls.Config.VerifyConnection: it checks the certificate of a client.
func (p *keyPair) verify(s tls.ConnectionState) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("client certificate required")
	}
	_, clients := p.at(time.Now())
	o := x509.VerifyOptions{DNSName: p.ClientName, Roots: clients, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, c := range s.PeerCertificates[1:] {
		o.Intermediates.AddCert(c)
	}
	_, err := s.PeerCertificates[0].Verify(o)
	return err
}

// get implements tls.Config.GetCertificate.
func (p *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	cert, _ := p.at(time.Now())
	return cert, nil
}

// at returns the certificate and the authorities of clients to use at now.
func (p *keyPair) at(now time.Time) (*tls.Certificate, *x509.CertPool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.checked) >= recheck {
		if err := p.load(now); err != nil {
			p.log.Error("certificate not reloaded: the old one stays in use", "cert", p.CertFile, "key", p.KeyFile, "error", err)
		}
	}
	return p.cert, p.clients
}

// load reads the files if they changed. It requires mu, or that p is not shared yet.
func (p *keyPair) load(now time.Time) error {
	p.checked = now
	var modified [3]time.Time
	for i, name := range []string{p.CertFile, p.KeyFile, p.ClientCAFile} {
		if name == "" {
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		modified[i] = info.ModTime()
	}
	if p.cert != nil && modified == p.modified {
		return nil
	}
	cert, err := tls.LoadX509KeyPair(p.CertFile, p.KeyFile)
	if err != nil {
		return err
	}
	clients, err := authorities(p.ClientCAFile)
	if err != nil {
		return err
	}
	if p.cert != nil {
		p.log.Info("certificate reloaded", "cert", p.CertFile, "until", cert.Leaf.NotAfter)
	}
	p.cert, p.clients, p.modified = &cert, clients, modified
	return nil
}
