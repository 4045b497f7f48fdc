package catalogue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

const (
	maxAnswer = 1 << 20 // bytes of a response
	maxKept   = 100     // responses that are kept with their ETag
)

// HTTP is a Catalogue of a shop in any language: GET URL/products?ids=A,B returns a JSON array of
// Product. It keeps responses with an ETag, and asks with If-None-Match. It is safe for
// concurrent use.
type HTTP struct {
	address string
	client  *http.Client
	mu      sync.Mutex
	kept    map[string]kept
}

type kept struct {
	tag      string
	products []Product
}

// NewHTTP returns the catalogue at a URL. The client bounds where it connects.
func NewHTTP(address string, client *http.Client) (*HTTP, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("catalogue: URL: got %.200q, want an address such as https://shop.example/catalogue", address)
	}
	if client == nil {
		return nil, errors.New("catalogue: client: got nil, want an http.Client")
	}
	return &HTTP{address: strings.TrimSuffix(address, "/") + "/products?", client: client, kept: map[string]kept{}}, nil
}

// Products implements Catalogue.
func (c *HTTP) Products(ctx context.Context, ids []string) ([]Product, error) {
	query := url.Values{"ids": {strings.Join(ids, ",")}}.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.address+query, nil)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	before := c.kept[query]
	c.mu.Unlock()
	if before.tag != "" {
		r.Header.Set("If-None-Match", before.tag)
	}
	r.Header.Set("Accept", "application/json")
	res, err := c.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNotModified && before.tag != "" {
		return before.products, nil
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("catalogue: status: got %d, want 200", res.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("catalogue: response: got more than %d bytes", maxAnswer)
	}
	var products []Product
	if err := json.Unmarshal(body, &products); err != nil {
		return nil, fmt.Errorf("catalogue: response: want a JSON array of products: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if tag := res.Header.Get("ETag"); tag != "" {
		if len(c.kept) >= maxKept {
			clear(c.kept)
		}
		c.kept[query] = kept{tag, products}
	}
	return products, nil
}
