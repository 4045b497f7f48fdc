package ledger

import (
	"github.com/floodweir/weir/flashsale/ledger/internal/database"
	"github.com/floodweir/weir/flashsale/sale"
)

// claimCampaign records that a campaign is the merchant's. It fails if it is another merchant's.
func claimCampaign(x *database.Tx, merchant, name string) error {
	if name == "" {
		return nil
	}
	if _, err := x.Exec("INSERT INTO campaigns (name, merchant) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING", name, merchant); err != nil {
		return err
	}
	var owner string
	if err := x.Row("SELECT merchant FROM campaigns WHERE name = $1", name).Scan(&owner); err != nil {
		return err
	}
	if owner != merchant {
		return &sale.FieldError{Field: "campaign", Value: quote(name), Want: "a name that no other merchant uses", Code: sale.IsTaken}
	}
	return nil
}
