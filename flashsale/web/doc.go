// Package web is the HTTP interface of a flash sale, as API.md describes it: the [Shop] for
// buyers and the [Office] for merchants.
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
// A body is one flat JSON object in UTF-8 of at most 16 KiB: a member that is not known,
// stands twice, is nested, null or of another type is refused by name, and so is anything
// behind the object. Names count letter by letter. A path has one spelling: of any other the
// answer is 404, under the limits of the path that was meant.
//
// # The account
//
// A request that a layer refused says which in Flashsale-Layer; package layers counts it.
package web
