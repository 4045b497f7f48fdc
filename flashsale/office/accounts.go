package office

import (
	"cmp"
	"net/http"

	"github.com/floodweir/weir/flashsale/account"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/wire"
)

// accounts serves the accounts of a merchant for its owners.
type accounts struct {
	office   *Office
	sessions sessions
	store    account.Store
}

type accountJSON struct {
	Name     string `json:"name"`
	Role     string `json:"role"`
	Disabled bool   `json:"disabled"`
	At       string `json:"at"`
	Password string `json:"password,omitempty"` // only once, in the response that generates it
}

func accountOf(a *account.Account, password string) accountJSON {
	return accountJSON{a.Name, string(a.Role), a.Disabled, moment(a.CreatedAt), password}
}

// routes adds the routes of accounts.
func (o accounts) routes(handle func(pattern string, f func(*visit))) {
	handle("GET /api/accounts", o.list)
	handle("POST /api/accounts", o.add)
	handle("POST /api/accounts/role", o.role)
	handle("POST /api/accounts/password", o.password)
	handle("POST /api/accounts/disable", o.disable(true))
	handle("POST /api/accounts/enable", o.disable(false))
	handle("GET /api/accounts/log", o.log)
}

func (o accounts) list(v *visit) {
	list, err := o.store.Accounts(v.r.Context(), v.merchant)
	all := make([]accountJSON, 0, len(list))
	for i := range list {
		all = append(all, accountOf(&list[i], ""))
	}
	o.office.send(v, http.StatusOK, map[string]any{"accounts": all}, err)
}

// generated returns a password and its hash. If the owner sends no password, it returns a new
// one, which the response shows.
func (o accounts) generated(r *http.Request, sent string) (shown, hash string, err error) {
	if sent == "" {
		shown = account.NewPassword()
	}
	hash, err = o.sessions.newHash(r, cmp.Or(sent, shown))
	return shown, hash, err
}

func (o accounts) add(v *visit) {
	var name, role, password string
	if !v.decode(wire.Member{Name: "name", Text: &name}, wire.Member{Name: "role", Text: &role}, wire.Member{Name: "password", Text: &password}) {
		return
	}
	shown, hash, err := o.generated(v.r, password)
	var a account.Account
	if err == nil {
		a, err = o.store.Add(v.r.Context(), v.account.Name, account.Account{Merchant: v.merchant, Name: name, Role: account.Role(role), Hash: hash}, o.office.c.Clock())
	}
	o.office.send(v, http.StatusCreated, accountOf(&a, shown), err)
}

func (o accounts) role(v *visit) {
	var name, role string
	if !v.decode(wire.Member{Name: "name", Text: &name}, wire.Member{Name: "role", Text: &role}) {
		return
	}
	a, err := o.store.SetRole(v.r.Context(), v.account.Name, v.merchant, name, account.Role(role), o.office.c.Clock())
	o.office.send(v, http.StatusOK, accountOf(&a, ""), err)
}

// password replaces the password of another account. For the own one, the current password is
// required.
func (o accounts) password(v *visit) {
	var name, password string
	if !v.decode(wire.Member{Name: "name", Text: &name}, wire.Member{Name: "password", Text: &password}) {
		return
	}
	if name == v.account.Name {
		o.office.fail(v.w, v.r, &sale.FieldError{Field: "name", Value: "the own account", Want: "another one, or POST /api/me/password"})
		return
	}
	shown, hash, err := o.generated(v.r, password)
	var a account.Account
	if err == nil {
		a, err = o.store.SetHash(v.r.Context(), v.account.Name, v.merchant, name, hash, o.office.c.Clock())
	}
	o.office.send(v, http.StatusOK, accountOf(&a, shown), err)
}

func (o accounts) disable(disabled bool) func(*visit) {
	return func(v *visit) {
		var name string
		if !v.decode(wire.Member{Name: "name", Text: &name}) {
			return
		}
		a, err := o.store.SetDisabled(v.r.Context(), v.account.Name, v.merchant, name, disabled, o.office.c.Clock())
		o.office.send(v, http.StatusOK, accountOf(&a, ""), err)
	}
}

func (o accounts) log(v *visit) {
	entries, err := o.store.Log(v.r.Context(), v.merchant)
	all := make([]loggedJSON, 0, len(entries))
	for _, e := range entries {
		all = append(all, loggedJSON{At: moment(e.At), Actor: e.Actor, What: e.Event})
	}
	o.office.send(v, http.StatusOK, map[string]any{"log": all}, err)
}
