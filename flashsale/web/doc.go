// Package web serves the HTTP interface for buyers, as API.md describes it. Package office
// serves that for merchants.
//
//	shop, err := web.NewShop(web.ShopConfig{Service: service, Keys: keys, Layers: l, Pages: pages.NewShop(pages.Config{})})
//	…
//	defer shop.Close()
//	err = web.Server(shop).Serve(listener)
//
// # Users
//
// Only a signed cookie identifies a user; header fields, bodies and addresses do not. The ID of
// a guest is 128 random bits.
//
// # Requests
//
// Package wire reads requests. A path with another spelling is 404, and the limits of the
// canonical path apply to it.
//
// # Refusals
//
// A response that a layer refused names the layer in Flashsale-Layer. Package layers counts
// it.
package web
