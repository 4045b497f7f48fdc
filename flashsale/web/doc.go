// Package web is the HTTP interface of a flash sale for its buyers, as API.md describes it.
// That of merchants is package office.
//
//	shop, err := web.NewShop(web.ShopConfig{Desk: desk, Keys: keys, Layers: l, Pages: pages.NewShop(pages.Config{})})
//	…
//	defer shop.Close()
//	err = web.Server(shop).Serve(listener)
//
// # Who is asking
//
// A user is who a signed cookie says, and nothing else that a client sends: no field, no
// body, no address. IDs of guests are 128 random bits.
//
// # What is accepted
//
// What package wire reads. Of a path with another spelling the answer is 404, under the
// limits of the path that was meant.
//
// # The account
//
// A request that a layer refused says which in Flashsale-Layer; package layers counts it.
package web
