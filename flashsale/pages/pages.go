package pages

import "net/http"

// Policy is the Content-Security-Policy of the pages: nothing from other hosts, and no inline
// scripts or styles. The pages send it themselves; that of a sale adds the origins of a Captcha.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Config configures the pages. The zero value works.
type Config struct {
	// Lang is the language for browsers that prefer none of ours: "en" or "zh"; en if empty.
	Lang string

	// Mock shows the buttons of the mock payment provider.
	Mock bool

	// Captcha is the widget on the page of a sale; none if zero.
	Captcha Captcha
}

// NewShop returns the pages for buyers: /, /sales/{sale}, /c/{campaign}, /orders, and their files below
// /static/. Every other path is 404. It panics if c.Lang is neither en nor zh, or if
// c.Captcha.Check returns an error.
func NewShop(c Config) http.Handler {
	return newSite(c, "shop")
}

// NewOffice returns the pages for merchants: /, /sales/new, /sales/{sale}, /webhooks, /accounts,
// and their files below /static/. Every other path is 404. It panics if c.Lang is neither en nor zh.
func NewOffice(c Config) http.Handler {
	return newSite(c, "office")
}
