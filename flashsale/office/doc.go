// Package office is the HTTP interface of a flash sale for its merchants, as API.md describes
// it.
//
//	o, err := office.New(office.Config{Desk: desk, Merchants: ledger, Keys: keys, Layers: l, Pages: pages.NewOffice(pages.Config{})})
//	…
//	err = web.Server(o).Serve(listener)
//
// # Who is asking
//
// A signed cookie names the merchant, for as long as the password is the one that it was
// given for. A change needs, besides, what only a page of the office knows.
package office
