package ledger

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/floodweir/weir/flashsale/ledger/internal/database"
	"github.com/floodweir/weir/flashsale/sale"
)

// RecordNetworks implements sale.Ledger. It ignores records of an unknown sale and invalid
// networks.
func (l *records) RecordNetworks(ctx context.Context, seen []sale.NetworkUse) error {
	type row struct {
		Sale    string `json:"sale"`
		Network string `json:"network"`
		User    string `json:"usr"`
		At      int64  `json:"at"`
	}
	for part := range slices.Chunk(seen, 1000) {
		rows := make([]row, 0, len(part))
		for _, s := range part {
			if network := database.Storable(s.Network); network != "" && len(network) <= 64 && validateName("user", s.User) == nil {
				rows = append(rows, row{database.Storable(s.Sale), network, s.User, millis(s.At)})
			}
		}
		doc, err := json.Marshal(rows)
		if err != nil {
			return fail("saw", err)
		}
		if err := fail("saw", l.db.Exec(ctx, `INSERT INTO sightings (sale, network, usr, at)
			SELECT r.sale, r.network, r.usr, r.at FROM {rows:sale text, network text, usr text, at bigint}
			WHERE r.sale IN (SELECT id FROM sales) ORDER BY r.sale, r.network, r.usr ON CONFLICT DO NOTHING`, string(doc))); err != nil {
			return err
		}
	}
	return nil
}

// SharedNetworks implements sale.Ledger.
func (l *records) SharedNetworks(ctx context.Context, id string) ([]sale.SharedNetwork, error) {
	var all []sale.SharedNetwork
	err := fail("networks", l.db.Do(ctx, database.Read, func(x *database.Tx) error {
		k, err := load(x, id, false)
		if err != nil {
			return err
		}
		all, err = database.List(x, func(scan func(...any) error) (n sale.SharedNetwork, err error) {
			err = scan(&n.Network, &n.Users, &n.Orders)
			return n, err
		}, `SELECT s.network, count(DISTINCT s.usr) AS users, count(o.reservation)
			FROM sightings s LEFT JOIN orders o ON o.sale = s.sale AND o.usr = s.usr AND o.held IS NOT NULL
			WHERE s.sale = $1 GROUP BY s.network HAVING count(DISTINCT s.usr) > 1
			ORDER BY users DESC, s.network LIMIT 100`, k.ID)
		return err
	}))
	return all, err
}
