// Package front writes configurations of proxies before the shop: Weir's gateway, nginx that
// calls Weir, or nginx that decides itself in Lua.
//
//	c := front.Config{Listen: "127.0.0.1:8000", Shop: "127.0.0.1:8088"}
//	text, err := c.Gateway() // for `weir serve`
//
// The limits hold for every sale: a new one needs no change.
//
// README.md compares what each of them can decide and what is left to the shop.
package front
