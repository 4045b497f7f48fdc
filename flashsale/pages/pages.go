package pages

import "net/http"

// Policy is the Content-Security-Policy under which the pages work: nothing from elsewhere,
// and neither scripts nor styles in the text of a page. The pages send it with themselves.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Config of the pages. The zero value works.
type Config struct {
	// Lang is the language for who asks for none that there is: "en" or "zh"; en if empty.
	Lang string
}

// NewShop returns the pages of buyers: /, /sales/{sale}, /orders, and their files below
// /static/. It answers 404 to every other path. It panics if c.Lang is neither en nor zh.
func NewShop(c Config) http.Handler {
	return newSite(c, "shop")
}

// NewOffice returns the pages of merchants: /, /sales/new, /sales/{sale}, and their
// files below /static/. It answers 404 to every other path. It panics if c.Lang is neither
// en nor zh.
func NewOffice(c Config) http.Handler {
	return newSite(c, "office")
}
