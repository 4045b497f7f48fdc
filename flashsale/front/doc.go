// Package front is what can stand before the shop: Weir's gateway, nginx that asks Weir, or
// nginx that decides itself in Lua. It writes their configurations, with the right
// addresses, from the same few words.
//
//	c := front.Config{Listen: "127.0.0.1:8000", Shop: "127.0.0.1:8088", Sales: []front.Sale{front.Of(&s)}}
//	text, err := c.Gateway() // for `weir serve`
//
// README.md says what each of them can see, what it cannot, and what is left to the shop.
package front
