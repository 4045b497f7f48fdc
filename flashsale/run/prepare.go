package run

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/floodweir/weir/flashsale/captcha"
	"github.com/floodweir/weir/flashsale/catalogue"
	"github.com/floodweir/weir/flashsale/identity"
	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/webhook"
	"github.com/floodweir/weir/memstore"
)

// catalogueTimeout bounds one request to a catalogue.
const catalogueTimeout = 10 * time.Second

// given holds the files and values that Config refers to.
type given struct {
	secret, old []byte // empty if it is the directory's own
	layers      []byte // nil for the built-in file
	trusted     []netip.Prefix
	hooks       []netip.Prefix // of WebhookNetworks
	shops       []netip.Prefix // of CatalogueNetworks
	products    catalogue.Catalogue
	buyers      identity.Buyers
	oidc        *identity.OIDC
	challenge   captcha.Challenge
}

// prepare reads and validates all settings before anything is created. Its error lists every
// problem.
func (c *Config) prepare() (g given, err error) {
	var faults [7]error
	if c.OldSecret != "" {
		g.old, faults[0] = readSecret("old-secret", c.OldSecret)
	}
	if c.Secret != "" {
		g.secret, faults[1] = readSecret("secret", c.Secret)
	}
	for _, n := range []struct {
		texts []string
		to    *[]netip.Prefix
	}{{c.TrustedProxies, &g.trusted}, {c.WebhookNetworks, &g.hooks}, {c.CatalogueNetworks, &g.shops}} {
		for _, text := range n.texts {
			p, err := prefix(text)
			if err != nil {
				return g, err // check has validated it
			}
			*n.to = append(*n.to, p)
		}
	}
	if c.Layers != "" {
		g.layers, faults[2] = readLayers(c.Layers)
	}
	faults[3] = c.free()
	if g.products = c.Products; c.Catalogue != "" {
		g.products, faults[5] = catalogue.NewHTTP(c.Catalogue, webhook.NewClient(catalogueTimeout, g.shops))
	}
	g.buyers, g.oidc, faults[4] = c.Identity.open(c.Clock)
	g.challenge, faults[6] = c.Captcha.challenge(c.Challenge)
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
