package run

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/memstore"
)

// given holds the files and values that Config refers to.
type given struct {
	secret, old []byte // empty if it is the directory's own
	layers      []byte // nil for the built-in file
	trusted     []netip.Prefix
}

// prepare reads and validates all settings before anything is created. Its error lists every
// problem.
func (c *Config) prepare() (g given, err error) {
	var faults [4]error
	if c.OldSecret != "" {
		g.old, faults[0] = readSecret("old-secret", c.OldSecret)
	}
	if c.Secret != "" {
		g.secret, faults[1] = readSecret("secret", c.Secret)
	}
	for _, text := range c.TrustedProxies {
		p, err := prefix(text)
		if err != nil {
			return g, err // check has validated it
		}
		g.trusted = append(g.trusted, p)
	}
	if c.Layers != "" {
		g.layers, faults[2] = readLayers(c.Layers)
	}
	faults[3] = c.free()
	return g, errors.Join(faults[:]...)
}

// readLayers reads and validates a policy file.
func readLayers(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("layers: %w", err)
	}
	m, err := memstore.New(memstore.Config{})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	l, err := layers.New(layers.Config{Store: m})
	if err != nil {
		return nil, err
	}
	if err = l.Reload(path, text); err != nil && !strings.Contains(err.Error(), path) {
		err = fmt.Errorf("layers %s: %w", path, err)
	}
	return text, err
}

// free checks that the two addresses are free.
func (c *Config) free() error {
	var faults []error
	for _, l := range []struct{ what, addr string }{{"shop", c.Shop}, {"office", c.Office}} {
		open, err := net.Listen("tcp", l.addr)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s %s: %w", l.what, l.addr, err))
			continue
		}
		defer open.Close()
	}
	if faults == nil || !c.Embedded() {
		return errors.Join(faults...)
	}
	// Usually another process of the same directory listens there.
	if _, err := os.Stat(filepath.Join(c.Data, "lock")); err == nil {
		unlock, err := lock(c.Data)
		if err != nil {
			return err
		}
		faults = append(faults, unlock())
	}
	return errors.Join(faults...)
}
