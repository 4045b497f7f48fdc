package account

import (
	"context"
	"slices"
	"time"
)

// Role says what an account may do.
type Role string

const (
	View    Role = "view"    // reads everything; contact data of buyers is masked
	Service Role = "service" // also handles orders and sees contact data
	Manage  Role = "manage"  // also changes sales, products, webhooks and stock
	Owner   Role = "owner"   // also manages accounts
)

// Roles returns all roles, the one that may do least first.
func Roles() []Role { return []Role{View, Service, Manage, Owner} }

// Valid reports whether r is one of Roles.
func (r Role) Valid() bool { return slices.Contains(Roles(), r) }

// Includes reports whether an account with role r may do what needed may do. An unknown role
// includes nothing and is included in nothing.
func (r Role) Includes(needed Role) bool {
	return r.Valid() && needed.Valid() && slices.Index(Roles(), r) >= slices.Index(Roles(), needed)
}

// MaxAccounts is the maximum number of accounts of a merchant, disabled ones included.
const MaxAccounts = 100

// Account is an account of a merchant. Its name is unique among the accounts of all merchants,
// because a login has no merchant.
type Account struct {
	Merchant  string
	Name      string // 1 to 128 bytes of text without control characters
	Role      Role
	Hash      string // of the password, by HashPassword
	Disabled  bool   // it cannot log in, and has no session
	CreatedAt time.Time
}

// Entry is an entry of the log of a merchant's accounts.
type Entry struct {
	At    time.Time
	Actor string
	Event string
}

// Operator is the actor of changes on the command line. No account that Add adds has its name.
const Operator = "operator"

// Store stores accounts. Errors wrap sale.ErrNotFound, sale.ErrConflict, sale.ErrInvalid or
// sale.ErrUnavailable. An account of another merchant is ErrNotFound. It is safe for concurrent
// use.
//
// The rules, which the conformance suite of ledgers checks:
//
//  1. A change is visible to every later call of Account, in all processes.
//  2. A merchant with accounts always has an enabled owner. The change that would break this is
//     ErrConflict.
//  3. Each change is in the log, in the same transaction.
type Store interface {
	// Account returns an account by its name.
	Account(ctx context.Context, name string) (Account, error)

	// Accounts returns the accounts of a merchant by name, without their hashes.
	Accounts(ctx context.Context, merchant string) ([]Account, error)

	// Add adds an account. A name that is taken, or a merchant with MaxAccounts, is ErrConflict.
	// Disabled and CreatedAt are ignored.
	Add(ctx context.Context, actor string, a Account, now time.Time) (Account, error)

	// SetRole changes the role of an account.
	SetRole(ctx context.Context, actor, merchant, name string, role Role, now time.Time) (Account, error)

	// SetHash replaces the password hash of an account.
	SetHash(ctx context.Context, actor, merchant, name, hash string, now time.Time) (Account, error)

	// SetDisabled disables or enables an account.
	SetDisabled(ctx context.Context, actor, merchant, name string, disabled bool, now time.Time) (Account, error)

	// Log returns the last 200 changes of a merchant's accounts, the newest first.
	Log(ctx context.Context, merchant string) ([]Entry, error)
}

// actor identifies the account that a context acts for.
type actor struct{ merchant, name string }

type contextKey struct{}

// With returns a context of a request by a.
func With(ctx context.Context, a Account) context.Context {
	return context.WithValue(ctx, contextKey{}, actor{a.Merchant, a.Name})
}

// Actor returns the name for the audit log of an action by who: the account of the context, if
// who is its merchant, and who otherwise.
func Actor(ctx context.Context, who string) string {
	if a, ok := ctx.Value(contextKey{}).(actor); ok && a.merchant == who {
		return a.name
	}
	return who
}
