package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/floodweir/weir/flashsale/catalogue"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/wire"
)

const (
	campaignFor = time.Second      // how long a campaign is served from memory
	shownFor    = 30 * time.Second // how long a product of a campaign is
	readWithin  = 500 * time.Millisecond
	maxCampaign = 60 // sales that one page shows
)

// briefly lets browsers and proxies serve a response that is the same for everyone.
var briefly = []string{"public, max-age=1"}

// campaign returns the sales of a campaign with their products. It is built once a second from
// memory, whatever the number of requests, and its products are read once in shownFor.
func (c shopper) campaign(w http.ResponseWriter) {
	sh := c.shop.shelf
	c.answer(w, "campaign/"+c.id, campaignFor, briefly, func() ([]byte, error) {
		views, err := sh.list(c.r.Context(), c.now)
		if err != nil {
			return nil, err
		}
		poll := 5 * time.Second
		b := append(wire.AppendString([]byte{'{'}, "campaign", c.id), `,"sales":[`...)
		cards := sh.cards(c.r.Context(), c.now)
		defer cards.close()
		n := 0
		for i := range views {
			v := &views[i]
			if v.Sale.Campaign != c.id || n == maxCampaign {
				continue
			}
			if n++; n > 1 {
				b = append(b, ',')
			}
			all, steady := wire.AppendView(b, v)
			b = append(append(wire.AppendName(all[:steady], "product"), cards.of(v)...), '}') // without the clock, which would change the ETag
			if v.Phase != sale.PhaseEnded && v.Poll > 0 {
				poll = min(poll, v.Poll)
			}
		}
		if n == 0 {
			return nil, sale.ErrNotFound
		}
		return append(wire.AppendMillis(append(b, ']'), "poll_after_ms", max(poll, 2*time.Second)), '}', '\n'), nil
	})
}

// sales returns all sales that buyers see, with their products.
func (c shopper) sales(w http.ResponseWriter) {
	views, err := c.config.Service.List(c.r.Context())
	if err != nil {
		c.fail(w, err)
		return
	}
	products := make([][]byte, len(views)) // read before the response has a time
	cards := c.shop.shelf.cards(c.r.Context(), c.now)
	for i := range views {
		products[i] = cards.of(&views[i])
	}
	cards.close()
	c.write(w, http.StatusOK, func(b []byte) []byte {
		b = wire.AppendTime(append(b, '{'), "now", c.config.Service.Now())
		b = append(wire.AppendName(b, "sales"), '[')
		for i := range views {
			if i > 0 {
				b = append(b, ',')
			}
			all, _ := wire.AppendView(b, &views[i])
			b = append(append(wire.AppendName(all[:len(all)-1], "product"), products[i]...), '}')
		}
		return append(b, ']', '}')
	})
}

// cards returns the products of the sales in one response.
type cards struct {
	shelf  *shelf
	ctx    context.Context
	cancel context.CancelFunc
	now    time.Time
	locked bool // holds reading
	reads  bool // whether it may read products that are not in memory
}

// cards returns a cards, which must be closed. One response at a time reads products from the
// store, for at most readWithin. The others have those in memory.
func (sh *shelf) cards(ctx context.Context, now time.Time) *cards {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	locked := sh.store != nil && sh.reading.TryLock()
	return &cards{sh, ctx, cancel, now, locked, locked}
}

func (c *cards) close() {
	c.cancel()
	if c.locked {
		c.shelf.reading.Unlock()
	}
}

// of returns the product of a sale in JSON.
func (c *cards) of(v *sale.View) []byte {
	shown, err := c.shelf.product(c.ctx, v.Sale.ID, c.now, c.reads)
	c.reads = c.reads && err == nil                    // a store that is slow is not asked for the others
	doc, _ := json.Marshal(cardOf(&shown, v.Sale.SKU)) // it has no value that JSON lacks
	return doc
}

// card holds the part of a product that a list of sales shows.
type card struct {
	Title     catalogue.Text     `json:"title"`
	Variant   *catalogue.Text    `json:"variant,omitempty"` // the name of the one that is sold
	ListPrice int64              `json:"list_price"`
	Picture   *catalogue.Picture `json:"picture,omitempty"`
}

func cardOf(s *catalogue.Shown, sku string) card {
	c := card{Title: s.Title, ListPrice: s.ListPrice}
	if len(s.Pictures) > 0 {
		c.Picture = &s.Pictures[0]
	}
	for i := range s.Variants {
		if s.Variants[i].SKU == sku {
			c.Variant = &s.Variants[i].Name
		}
	}
	return c
}

// shownAt holds the product of a sale, and the time at which it was read.
type shownAt struct {
	catalogue.Shown
	at time.Time
}

// product returns what a sale shows, at most shownFor old if it reads. A sale whose product cannot
// be read shows what it did before.
func (sh *shelf) product(ctx context.Context, id string, now time.Time, reads bool) (catalogue.Shown, error) {
	sh.mu.Lock()
	s, ok := sh.shown[id]
	sh.mu.Unlock()
	if age := now.Sub(s.at); !reads || ok && age >= 0 && age < shownFor {
		return s.Shown, nil
	}
	shown, err := sh.store.Product(ctx, id)
	if err != nil && !errors.Is(err, sale.ErrNotFound) {
		return s.Shown, err
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if len(sh.shown) >= maxAnswers {
		clear(sh.shown)
	}
	sh.shown[id] = shownAt{shown, now}
	return shown, nil
}
