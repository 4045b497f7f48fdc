package run

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// minSecret is how many bytes a secret has at least.
const minSecret = 32

// secrets reads the secret, and the one before if there is one. In the embedded mode the
// secret is made if it is not there.
func (c *Config) secrets() (secret, old []byte, err error) {
	if c.OldSecret != "" {
		if old, err = readSecret(c.OldSecret); err != nil {
			return nil, nil, err
		}
	}
	if c.Secret != "" {
		secret, err = readSecret(c.Secret)
		return secret, old, err
	}
	path := filepath.Join(c.Data, "secret")
	secret, err = readSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		secret, err = makeSecret(path)
	}
	return secret, old, err
}

// readSecret reads a file of hexadecimal digits, or of any bytes.
func readSecret(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	secret := []byte(strings.TrimSpace(string(text)))
	if raw, err := hex.DecodeString(string(secret)); err == nil {
		secret = raw
	}
	if len(secret) < minSecret {
		return nil, fmt.Errorf("secret %s: %d bytes: want at least %d, as of `openssl rand -hex 32`", path, len(secret), minSecret)
	}
	return secret, nil
}

// makeSecret makes a secret that no other process of this directory has made meanwhile.
func makeSecret(path string) ([]byte, error) {
	secret := make([]byte, minSecret)
	rand.Read(secret)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	if _, err = f.WriteString(hex.EncodeToString(secret) + "\n"); err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		os.Remove(path)
		return nil, fmt.Errorf("secret: %w", err)
	}
	return secret, nil
}
