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

// minSecret is the minimum length of a secret, in bytes.
const minSecret = 32

// makeData creates the directory if it is missing.
func (c *Config) makeData() error {
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	return nil
}

// ownSecret returns the secret of the directory. It creates both if they are missing.
func (c *Config) ownSecret() ([]byte, error) {
	if err := c.makeData(); err != nil {
		return nil, err
	}
	path := filepath.Join(c.Data, "secret")
	secret, err := readSecret("secret", path)
	if errors.Is(err, fs.ErrNotExist) {
		return makeSecret(path)
	}
	return secret, err
}

// readSecret reads a secret from a file of hexadecimal digits or of any bytes.
func readSecret(field, path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	secret := []byte(strings.TrimSpace(string(text)))
	if raw, err := hex.DecodeString(string(secret)); err == nil {
		secret = raw
	}
	if len(secret) < minSecret {
		return nil, fmt.Errorf("%s %s: %d bytes: want at least %d, as of `openssl rand -hex 32`", field, path, len(secret), minSecret)
	}
	return secret, nil
}

// makeSecret creates a secret, unless another process has created one meanwhile.
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
