package run

import (
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
	"time"
)

// recheck is the least time between two checks whether the files of a certificate changed.
const recheck = 10 * time.Second

// A keyPair is a certificate and its private key. It reads the files again when they
// change, so a renewal needs no restart. If they cannot be read, it keeps the old pair.
type keyPair struct {
	certFile, keyFile string
	log               *slog.Logger

	mu       sync.Mutex
	cert     *tls.Certificate
	modified [2]time.Time // modification times of the files of cert
	checked  time.Time
}

// newKeyPair reads the pair from its files.
func newKeyPair(certFile, keyFile string, log *slog.Logger) (*keyPair, error) {
	p := &keyPair{certFile: certFile, keyFile: keyFile, log: log}
	return p, p.load(time.Now())
}

// get implements tls.Config.GetCertificate.
func (p *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return p.at(time.Now()), nil
}

// at returns the certificate to use at now.
func (p *keyPair) at(now time.Time) *tls.Certificate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.checked) >= recheck {
		if err := p.load(now); err != nil {
			p.log.Error("certificate not reloaded: the old one stays in use", "cert", p.certFile, "key", p.keyFile, "error", err)
		}
	}
	return p.cert
}

// load reads the files if they changed. It requires mu, or that p is not shared yet.
func (p *keyPair) load(now time.Time) error {
	p.checked = now
	var modified [2]time.Time
	for i, name := range []string{p.certFile, p.keyFile} {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		modified[i] = info.ModTime()
	}
	if p.cert != nil && modified == p.modified {
		return nil
	}
	cert, err := tls.LoadX509KeyPair(p.certFile, p.keyFile)
	if err != nil {
		return err
	}
	if p.cert != nil {
		p.log.Info("certificate reloaded", "cert", p.certFile, "until", cert.Leaf.NotAfter)
	}
	p.cert, p.modified = &cert, modified
	return nil
}
