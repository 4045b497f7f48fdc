// Package accounts stores the accounts of merchants in a ledger.
package accounts

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/floodweir/weir/flashsale/account"
	"github.com/floodweir/weir/flashsale/ledger/internal/database"
	"github.com/floodweir/weir/flashsale/sale"
)

// Store implements account.Store in a ledger.
type Store struct{ DB *database.DB }

var _ account.Store = Store{}

// reserved lists the actors in the audit log that are not accounts.
func reserved() []string { return []string{"flashsale", "payments", account.Operator} }

func fail(operation string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("ledger: accounts: %s: %w", operation, err)
}

// validate returns the errors of the fields of a new account.
func validate(a *account.Account) error {
	switch {
	case a.Name == "" || len(a.Name) > 128 || database.Storable(a.Name) == "" || strings.ContainsFunc(a.Name, func(r rune) bool { return !unicode.IsGraphic(r) }) || strings.TrimSpace(a.Name) != a.Name:
		return &sale.FieldError{Field: "name", Value: fmt.Sprintf("%.80q", a.Name), Want: "1 to 128 bytes of text without control characters and outer spaces"}
	case slices.Contains(reserved(), a.Name):
		return &sale.FieldError{Field: "name", Value: a.Name, Want: "a name that no part of the system has", Code: sale.IsTaken}
	}
	return errors.Join(validateRole(a.Role), validateHash(a.Hash))
}

func validateRole(r account.Role) error {
	if !r.Valid() {
		return &sale.FieldError{Field: "role", Value: fmt.Sprintf("%.40q", r), Want: fmt.Sprintf("one of %v", account.Roles())}
	}
	return nil
}

func validateHash(hash string) error {
	if hash == "" || database.Storable(hash) == "" {
		return fmt.Errorf("%w: password hash: want 1 to 512 bytes of text", sale.ErrInvalid)
	}
	return nil
}

const columns = "merchant, name, role, hash, disabled, created"

func scan(row func(...any) error) (account.Account, error) {
	var a account.Account
	var disabled int
	var created int64
	err := row(&a.Merchant, &a.Name, &a.Role, &a.Hash, &disabled, &created)
	a.Disabled = disabled != 0
	if created > 0 { // older accounts have no time
		a.CreatedAt = time.UnixMilli(created).UTC()
	}
	return a, err
}

// Account implements account.Store.
func (s Store) Account(ctx context.Context, name string) (account.Account, error) {
	var a account.Account
	err := s.DB.Do(ctx, database.ReadOne, func(x *database.Tx) (err error) {
		a, err = read(x, name)
		return err
	})
	return a, fail("account", err)
}

func read(x *database.Tx, name string) (account.Account, error) {
	a, err := scan(x.Row("SELECT "+columns+" FROM accounts WHERE name = $1", database.Storable(name)).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("account %.80q: %w", name, sale.ErrNotFound)
	}
	return a, err
}

// Accounts implements account.Store.
func (s Store) Accounts(ctx context.Context, merchant string) ([]account.Account, error) {
	var all []account.Account
	err := s.DB.Do(ctx, database.ReadOne, func(x *database.Tx) (err error) {
		all, err = database.List(x, scan, "SELECT "+columns+" FROM accounts WHERE merchant = $1 ORDER BY name", database.Storable(merchant))
		return err
	})
	for i := range all {
		all[i].Hash = ""
	}
	return all, fail("list", err)
}

// Add implements account.Store.
func (s Store) Add(ctx context.Context, actor string, a account.Account, now time.Time) (account.Account, error) {
	if err := validate(&a); err != nil {
		return account.Account{}, fail("add", err)
	}
	a.Disabled, a.CreatedAt = false, time.UnixMilli(now.UnixMilli()).UTC()
	return a, fail("add", s.DB.Do(ctx, database.Write, func(x *database.Tx) error {
		if err := lock(x, a.Merchant); err != nil {
			return err
		}
		var n int
		if err := x.Row("SELECT count(*) FROM accounts WHERE merchant = $1", a.Merchant).Scan(&n); err != nil {
			return err
		}
		if n >= account.MaxAccounts {
			return fmt.Errorf("%w: merchant %.80q has %d accounts, want up to %d", sale.ErrConflict, a.Merchant, n, account.MaxAccounts)
		}
		if err := insert(x, &a); err != nil {
			return err
		}
		return record(x, actor, a.Merchant, fmt.Sprintf("added account %s (%s)", a.Name, a.Role), now)
	}))
}

func insert(x *database.Tx, a *account.Account) error {
	_, err := x.Exec("INSERT INTO accounts ("+columns+") VALUES ($1, $2, $3, $4, 0, $5)", a.Merchant, a.Name, string(a.Role), a.Hash, a.CreatedAt.UnixMilli())
	if database.IsDuplicate(err) {
		err = fmt.Errorf("%w: an account has the name %.80q already", sale.ErrConflict, a.Name)
	}
	return err
}

// lock locks a merchant, so that changes of its accounts take turns.
func lock(x *database.Tx, merchant string) error {
	var n int
	err := x.Row("SELECT count(*) FROM (SELECT name FROM merchants WHERE name = $1 {lock}) AS m", database.Storable(merchant)).Scan(&n)
	if err == nil && n == 0 {
		err = fmt.Errorf("merchant %.80q: %w", merchant, sale.ErrNotFound)
	}
	return err
}

// record appends an entry to the log of a merchant's accounts.
func record(x *database.Tx, actor, merchant, what string, now time.Time) error {
	_, err := x.Exec("INSERT INTO audit (at, actor, sale, what, merchant) VALUES ($1, $2, '', $3, $4)", now.UnixMilli(), actor, what, merchant)
	return err
}

// change reads an account, lets edit change it, and stores and records the result. Edit returns
// what is recorded, or an empty text if nothing changed.
func (s Store) change(ctx context.Context, operation, actor, merchant, name string, now time.Time, edit func(a *account.Account) string) (account.Account, error) {
	var a account.Account
	err := s.DB.Do(ctx, database.Write, func(x *database.Tx) (err error) {
		if err := lock(x, merchant); err != nil {
			return err
		}
		if a, err = read(x, name); err != nil {
			return err
		}
		if a.Merchant != merchant {
			return fmt.Errorf("account %.80q: %w", name, sale.ErrNotFound)
		}
		before := a
		what := edit(&a)
		if what == "" {
			return nil
		}
		if isOwner(&before) && !isOwner(&a) {
			var others int
			if err := x.Row("SELECT count(*) FROM accounts WHERE merchant = $1 AND name <> $2 AND role = 'owner' AND disabled = 0", merchant, name).Scan(&others); err != nil {
				return err
			}
			if others == 0 {
				return fmt.Errorf("%w: %s is the last owner", sale.ErrConflict, name)
			}
		}
		disabled := 0
		if a.Disabled {
			disabled = 1
		}
		if _, err := x.Exec("UPDATE accounts SET role = $2, hash = $3, disabled = $4 WHERE name = $1", name, string(a.Role), a.Hash, disabled); err != nil {
			return err
		}
		return record(x, actor, merchant, fmt.Sprintf("account %s: %s", name, what), now)
	})
	if err != nil {
		return account.Account{}, fail(operation, err)
	}
	return a, nil
}

// isOwner reports whether an account can manage accounts.
func isOwner(a *account.Account) bool { return a.Role == account.Owner && !a.Disabled }

// SetRole implements account.Store.
func (s Store) SetRole(ctx context.Context, actor, merchant, name string, role account.Role, now time.Time) (account.Account, error) {
	if err := validateRole(role); err != nil {
		return account.Account{}, fail("set role", err)
	}
	return s.change(ctx, "set role", actor, merchant, name, now, func(a *account.Account) string {
		if a.Role == role {
			return ""
		}
		what := fmt.Sprintf("role %s became %s", a.Role, role)
		a.Role = role
		return what
	})
}

// SetHash implements account.Store.
func (s Store) SetHash(ctx context.Context, actor, merchant, name, hash string, now time.Time) (account.Account, error) {
	if err := validateHash(hash); err != nil {
		return account.Account{}, fail("set password", err)
	}
	return s.change(ctx, "set password", actor, merchant, name, now, func(a *account.Account) string {
		a.Hash = hash
		return "new password"
	})
}

// SetDisabled implements account.Store.
func (s Store) SetDisabled(ctx context.Context, actor, merchant, name string, disabled bool, now time.Time) (account.Account, error) {
	return s.change(ctx, "disable", actor, merchant, name, now, func(a *account.Account) string {
		what := ""
		switch {
		case a.Disabled == disabled:
		case disabled:
			what = "disabled"
		default:
			what = "enabled"
		}
		a.Disabled = disabled
		return what
	})
}

// Log implements account.Store.
func (s Store) Log(ctx context.Context, merchant string) ([]account.Entry, error) {
	var all []account.Entry
	if database.Storable(merchant) == "" {
		return nil, nil // entries of sales have no merchant
	}
	err := s.DB.Do(ctx, database.ReadOne, func(x *database.Tx) (err error) {
		all, err = database.List(x, func(scan func(...any) error) (e account.Entry, err error) {
			var at int64
			err = scan(&at, &e.Actor, &e.Event)
			e.At = time.UnixMilli(at).UTC()
			return e, err
		}, "SELECT at, actor, what FROM audit WHERE merchant = $1 AND merchant <> '' ORDER BY id DESC LIMIT 200", merchant)
		return err
	})
	return all, fail("log", err)
}

// AddMerchant adds a merchant with an account of the same name as its owner, or replaces the
// password hash of that account.
func (s Store) AddMerchant(ctx context.Context, merchant, hash string, now time.Time) error {
	if err := validateHash(hash); err != nil {
		return fail("add merchant", err)
	}
	return fail("add merchant", s.DB.Do(ctx, database.Write, func(x *database.Tx) error {
		if _, err := x.Exec("INSERT INTO merchants (name) VALUES ($1) ON CONFLICT (name) DO NOTHING", merchant); err != nil {
			return err
		}
		if err := lock(x, merchant); err != nil {
			return err
		}
		a, err := read(x, merchant)
		switch {
		case errors.Is(err, sale.ErrNotFound):
			a = account.Account{Merchant: merchant, Name: merchant, Role: account.Owner, Hash: hash, CreatedAt: now}
			if err := insert(x, &a); err != nil {
				return err
			}
			return record(x, account.Operator, merchant, "added account "+merchant+" (owner)", now)
		case err != nil:
			return err
		case a.Merchant != merchant:
			return fmt.Errorf("%w: an account of another merchant has the name %.80q", sale.ErrConflict, merchant)
		}
		if _, err := x.Exec("UPDATE accounts SET hash = $2 WHERE name = $1", merchant, hash); err != nil {
			return err
		}
		return record(x, account.Operator, merchant, "account "+merchant+": new password", now)
	}))
}
