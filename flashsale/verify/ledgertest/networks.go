package ledgertest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// networks checks the networks with several users, and their number of orders.
func networks(t *testing.T, d *tester) {
	s, other := d.exposed(10, 2), d.exposed(10, 2)
	saw := func(id, network string, users ...string) {
		var all []sale.NetworkUse
		for _, u := range users {
			all = append(all, sale.NetworkUse{Sale: id, User: u, Network: network, At: Start()})
		}
		d.must(d.RecordNetworks(d.ctx, all))
	}
	networks := func(id string, want ...sale.SharedNetwork) {
		t.Helper()
		got, err := d.SharedNetworks(d.ctx, id)
		d.must(err)
		if !slices.Equal(got, want) {
			t.Fatalf("Networks = %v, want %v", got, want)
		}
	}
	d.must(d.RecordNetworks(d.ctx, nil))
	networks(s.ID)
	saw(s.ID, "192.0.2.1", "ann", "bob")
	saw(s.ID, "192.0.2.1", "bob", "bob") // repeated: nothing new
	saw(s.ID, "2001:db8::/64", "eve", "fay", "gus", "ann")
	saw(s.ID, "192.0.2.2", "dan") // the only user
	saw(other.ID, "192.0.2.2", "ann", "bob")
	networks(s.ID, sale.SharedNetwork{Network: "2001:db8::/64", Users: 4}, sale.SharedNetwork{Network: "192.0.2.1", Users: 2})
	networks(other.ID, sale.SharedNetwork{Network: "192.0.2.2", Users: 2})

	// Ended orders do not count.
	d.pendingOrder(s, "ann")
	bob := d.pendingOrder(s, "bob")
	d.pendingOrder(other, "ann")
	networks(s.ID, sale.SharedNetwork{Network: "2001:db8::/64", Users: 4, Orders: 1}, sale.SharedNetwork{Network: "192.0.2.1", Users: 2, Orders: 2})
	_, err := d.Cancel(d.ctx, "bob", bob.ID, Start().Add(2*time.Second))
	d.must(err)
	networks(s.ID, sale.SharedNetwork{Network: "2001:db8::/64", Users: 4, Orders: 1}, sale.SharedNetwork{Network: "192.0.2.1", Users: 2, Orders: 1})

	// Invalid entries are ignored, the others are stored.
	for _, bad := range []sale.NetworkUse{
		{Sale: "nothing", User: "ann", Network: "192.0.2.9"}, {Sale: s.ID, User: "", Network: "192.0.2.9"},
		{Sale: s.ID, User: "a\x00b", Network: "192.0.2.9"}, {Sale: s.ID, User: "ann", Network: ""},
		{Sale: s.ID, User: "ann", Network: "\xff"}, {Sale: s.ID, User: "ann", Network: strings.Repeat("9", 65)},
		{Sale: "'; DROP TABLE sightings; --", User: "ann", Network: "192.0.2.9"},
	} {
		d.must(d.RecordNetworks(d.ctx, []sale.NetworkUse{bad, {Sale: other.ID, User: "cat", Network: "192.0.2.2", At: Start()}}))
	}
	networks(other.ID, sale.SharedNetwork{Network: "192.0.2.2", Users: 3, Orders: 1})
	_, err = d.SharedNetworks(d.ctx, "nothing")
	d.wantError("Networks of an unknown sale", err, sale.ErrNotFound)
	many := make([]sale.NetworkUse, 0, 2500)
	for i := range cap(many) {
		many = append(many, sale.NetworkUse{Sale: other.ID, User: "u" + strings.Repeat("x", i%50), Network: "10.0." + string(rune('0'+i/50%10)) + string(rune('0'+i/500)) + ".1", At: Start()})
	}
	d.must(d.RecordNetworks(d.ctx, many))
	if got, err := d.SharedNetworks(d.ctx, other.ID); err != nil || len(got) != 51 || got[0].Users != 50 {
		t.Fatalf("got %d networks, the first %+v, %v; want 51 with 50 users in the first", len(got), got[0], err)
	}
}
