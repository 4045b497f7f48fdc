package run

import (
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
	"time"
)

// recheck is how often a handshake looks whether the files of a certificate changed.
const recheck = 10 * time.Second

// A keyPair is read again when its files change, so that a renewed one needs no
// restart. Files that cannot be read leave the one before in use.
type keyPair struct {
	certFile, keyFile string
	log               *slog.Logger

	mu      sync.Mutex
	cert    *tls.Certificate
	version [2]time.Time // when the files that were last read were written
	checked time.Time
}

// get serves tls.Config.GetCertificate.
func (c *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.at(time.Now()), nil
}

// at is the certificate at now.
func (c *keyPair) at(now time.Time) *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.checked) >= recheck {
		if err := c.load(now); err != nil {
			c.log.Error("the certificate was not renewed: the one before stays in use", "cert", c.certFile, "key", c.keyFile, "error", err)
		}
	}
	return c.cert
}

// load reads the files if they changed. It requires mu, or that nobody else knows c.
func (c *keyPair) load(now time.Time) error {
	c.checked = now
	var version [2]time.Time
	for i, name := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		version[i] = info.ModTime()
	}
	if c.cert != nil && version == c.version {
		return nil
	}
	cert, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return err
	}
	if c.cert != nil {
		c.log.Info("certificate renewed", "cert", c.certFile, "until", cert.Leaf.NotAfter)
	}
	c.cert, c.version = &cert, version
	return nil
}
