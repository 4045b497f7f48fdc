// Package office is the HTTP interface of a flash sale for its merchants, as API.md describes
// it.
//
//	o, err := office.New(office.Config{Service: merchants, Accounts: ledger.Accounts(), Keys: keys, Layers: l, Pages: pages.NewOffice(pages.Config{})})
//	…
//	err = web.Server(o).Serve(listener)
//
// # Who is asking
//
// A signed cookie names the account, for as long as the password is the one that it was
// given for. Each request reads the account, so changes of it take effect at the next request. A
// change needs, besides, what only a page of the office knows.
//
// # Roles
//
// roles.go has the role that each route needs.
package office
