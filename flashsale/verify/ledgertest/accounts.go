package ledgertest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/account"
	"github.com/floodweir/weir/flashsale/sale"
)

// addAccount adds an account of merchant "shop".
func (d *tester) addAccount(name string, role account.Role) {
	d.t.Helper()
	_, err := d.Accounts().Add(d.ctx, "shop", account.Account{Merchant: "shop", Name: name, Role: role, Hash: "hash of " + name}, Start())
	d.must(err)
}

// accounts adds and changes accounts of two merchants.
func accounts(t *testing.T, d *tester) {
	a := d.Accounts()
	d.must(d.AddMerchant(d.ctx, "shop", "h"))
	d.must(d.AddMerchant(d.ctx, "other", "h"))
	got, err := a.Add(d.ctx, "shop", account.Account{Merchant: "shop", Name: "li 丽", Role: account.View, Hash: "h1", Disabled: true}, Start())
	want := account.Account{Merchant: "shop", Name: "li 丽", Role: account.View, Hash: "h1", CreatedAt: Start()}
	if err != nil || got != want {
		t.Fatalf("Add = %+v, %v, want %+v", got, err, want)
	}
	if got, err := a.Account(d.ctx, "li 丽"); err != nil || got != want {
		t.Fatalf("Account = %+v, %v, want %+v", got, err, want)
	}
	// A name is unique, also among merchants.
	for _, merchant := range []string{"shop", "other"} {
		for _, name := range []string{"li 丽", "shop"} {
			_, err = a.Add(d.ctx, "x", account.Account{Merchant: merchant, Name: name, Role: account.View, Hash: "h"}, Start())
			d.wantError("Add "+name+" again", err, sale.ErrConflict)
		}
	}
	_, err = a.Add(d.ctx, "x", account.Account{Merchant: "unknown", Name: "new", Role: account.View, Hash: "h"}, Start())
	d.wantError("Add to an unknown merchant", err, sale.ErrNotFound)
	d.wantError("AddMerchant with the name of an account", d.AddMerchant(d.ctx, "li 丽", "h"), sale.ErrConflict)

	now := Start().Add(time.Minute)
	want.Role, want.Hash, want.Disabled = account.Manage, "h2", true
	for _, change := range []func() (account.Account, error){
		func() (account.Account, error) {
			return a.SetRole(d.ctx, "shop", "shop", "li 丽", account.Manage, now)
		},
		func() (account.Account, error) { return a.SetHash(d.ctx, "shop", "shop", "li 丽", "h2", now) },
		func() (account.Account, error) { return a.SetDisabled(d.ctx, "shop", "shop", "li 丽", true, now) },
		func() (account.Account, error) { return a.SetDisabled(d.ctx, "shop", "shop", "li 丽", true, now) }, // changes nothing
	} {
		got, err = change()
		d.must(err)
	}
	if read, err := a.Account(d.ctx, "li 丽"); err != nil || read != want || got != want {
		t.Fatalf("Account = %+v, %v, and the last change returned %+v; want %+v", read, err, got, want)
	}
	_, err = a.SetDisabled(d.ctx, "shop", "shop", "li 丽", false, now)
	d.must(err)
	list, err := a.Accounts(d.ctx, "shop")
	d.must(err)
	if len(list) != 2 || list[0].Name != "li 丽" || list[1].Name != "shop" || list[0].Hash != "" || list[0].Disabled {
		t.Fatalf("Accounts = %+v, want two without hashes", list)
	}
	log, err := a.Log(d.ctx, "shop")
	d.must(err)
	var events []string
	for _, e := range log[:len(log)-1] {
		if e.Actor != "shop" {
			t.Errorf("log: actor %q, want shop", e.Actor)
		}
		events = append(events, e.Event)
	}
	if got := strings.Join(events, "; "); got != "account li 丽: enabled; account li 丽: disabled; account li 丽: new password; account li 丽: role view became manage; added account li 丽 (view)" {
		t.Errorf("log: %s", got)
	}
	if first := log[len(log)-1]; first.Actor != account.Operator || first.Event != "added account shop (owner)" {
		t.Errorf("log: first %+v, want the merchant's", first)
	}

	// Accounts of another merchant are not found.
	_, err = a.SetRole(d.ctx, "other", "other", "li 丽", account.Owner, now)
	d.wantError("SetRole", err, sale.ErrNotFound)
	_, err = a.SetHash(d.ctx, "other", "other", "shop", "h", now)
	d.wantError("SetHash", err, sale.ErrNotFound)
	_, err = a.SetDisabled(d.ctx, "other", "other", "li 丽", true, now)
	d.wantError("SetDisabled", err, sale.ErrNotFound)
	if log, err := a.Log(d.ctx, "other"); err != nil || len(log) != 1 {
		t.Errorf("log of another merchant: %v, %v, want one entry", log, err)
	}

	// The last enabled owner stays one.
	d.addAccount("second", account.Owner)
	_, err = a.SetDisabled(d.ctx, "shop", "shop", "second", true, now)
	d.must(err)
	_, err = a.SetRole(d.ctx, "shop", "shop", "shop", account.Manage, now)
	d.wantError("demote the last owner", err, sale.ErrConflict)
	_, err = a.SetDisabled(d.ctx, "shop", "shop", "shop", true, now)
	d.wantError("disable the last owner", err, sale.ErrConflict)
	if got, err := a.Account(d.ctx, "shop"); err != nil || got.Role != account.Owner || got.Disabled {
		t.Fatalf("the last owner is %+v, %v", got, err)
	}
	_, err = a.SetDisabled(d.ctx, "shop", "shop", "second", false, now)
	d.must(err)
	_, err = a.SetRole(d.ctx, "shop", "shop", "shop", account.View, now)
	d.must(err)

	// A new password of the merchant changes no role.
	d.must(d.AddMerchant(d.ctx, "shop", "h3"))
	if got, err := a.Account(d.ctx, "shop"); err != nil || got.Role != account.View || got.Hash != "h3" {
		t.Fatalf("after AddMerchant: %+v, %v, want role view and hash h3", got, err)
	}
	for i := 3; i < account.MaxAccounts; i++ {
		d.addAccount(fmt.Sprint("account ", i), account.Service)
	}
	_, err = a.Add(d.ctx, "shop", account.Account{Merchant: "shop", Name: "one more", Role: account.View, Hash: "h"}, Start())
	d.wantError("more than MaxAccounts", err, sale.ErrConflict)
}

func accountsInvalid(_ *testing.T, d *tester) {
	a := d.Accounts()
	d.must(d.AddMerchant(d.ctx, "shop", "h"))
	for _, x := range []account.Account{
		{Name: "", Role: account.View, Hash: "h"}, {Name: "a\n", Role: account.View, Hash: "h"}, {Name: " a", Role: account.View, Hash: "h"},
		{Name: "\xff", Role: account.View, Hash: "h"}, {Name: strings.Repeat("a", 129), Role: account.View, Hash: "h"},
		{Name: "a", Role: "", Hash: "h"}, {Name: "a", Role: "root", Hash: "h"}, {Name: "a", Role: account.View, Hash: ""}, {Name: "a", Role: account.View, Hash: "\x00"},
		{Name: account.Operator, Role: account.View, Hash: "h"}, {Name: "flashsale", Role: account.View, Hash: "h"}, {Name: "payments", Role: account.View, Hash: "h"},
	} {
		x.Merchant = "shop"
		_, err := a.Add(d.ctx, "shop", x, Start())
		d.wantError(fmt.Sprintf("Add %.20q %q", x.Name, x.Role), err, sale.ErrInvalid)
	}
	_, err := a.SetRole(d.ctx, "shop", "shop", "shop", "root", Start())
	d.wantError("SetRole root", err, sale.ErrInvalid)
	_, err = a.SetHash(d.ctx, "shop", "shop", "shop", "", Start())
	d.wantError("SetHash empty", err, sale.ErrInvalid)
}

// actors checks that the audit log names the account that acted for a merchant.
func actors(t *testing.T, d *tester) {
	d.must(d.AddMerchant(d.ctx, "shop", "h"))
	d.addAccount("li", account.Manage)
	ctx := account.With(d.ctx, account.Account{Merchant: "shop", Name: "li"})
	s, err := d.Create(ctx, "shop", id(), Draft(5, 1), Start().Add(-time.Hour))
	d.must(err)
	s, err = d.SetState(ctx, "shop", s.ID, sale.Exposed, "", Start().Add(-time.Hour), sale.Drafted)
	d.must(err)
	_, err = d.AddStock(ctx, "shop", s.ID, "k", 1, Start())
	d.must(err)
	r := d.pendingOrder(s, "u")
	_, err = d.CancelBy(ctx, "shop", s.ID, r.ID, "typo", Start())
	d.must(err)
	d.must(d.AppendAudit(ctx, "shop", s.ID, "seen", Start()))
	d.must(d.AppendAudit(ctx, "payments", s.ID, "paid", Start())) // not by the merchant
	log, err := d.AuditLog(d.ctx, s.ID)
	d.must(err)
	var who []string
	for _, e := range log {
		who = append(who, e.Actor)
	}
	if got := strings.Join(who, " "); got != "payments li li li li li" {
		t.Fatalf("actors %s: %+v, want li for all but payments", got, log)
	}
	if log, err := d.Accounts().Log(d.ctx, "shop"); err != nil || len(log) != 2 {
		t.Fatalf("log of accounts: %+v, %v, want two entries", log, err)
	}
}

// demoteAtOnce lets two owners demote and disable each other: one of them stays an owner.
func demoteAtOnce(t *testing.T, d *tester) {
	a := d.Accounts()
	for i := range 10 {
		merchant := fmt.Sprint("shop ", i)
		second := merchant + " second"
		d.must(d.AddMerchant(d.ctx, merchant, "h"))
		_, err := a.Add(d.ctx, merchant, account.Account{Merchant: merchant, Name: second, Role: account.Owner, Hash: "h"}, Start())
		d.must(err)
		var wg sync.WaitGroup
		errs := make([]error, 2)
		wg.Go(func() { _, errs[0] = a.SetRole(d.ctx, second, merchant, merchant, account.View, Start()) })
		wg.Go(func() { _, errs[1] = a.SetDisabled(d.ctx, merchant, merchant, second, true, Start()) })
		wg.Wait()
		if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs...), sale.ErrConflict) {
			t.Fatalf("errors %v, want one conflict", errs)
		}
	}
}
