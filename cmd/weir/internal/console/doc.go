// Package console serves the web console: one static page per view, whose scripts read and
// change everything through the JSON API of the admin interface.
//
//	mux.Handle("/console/", console.New())
//
// The files in static are served as they are: no tool builds them. page.html is the template of
// the pages, which pages.json lists. The pages use Preact for
// the elements and uPlot for the charts, from the npm packages preact 11.2.0 and uplot
// 1.6.32. The import of preact in lib/hooks.js has a relative path, and references to source
// maps are removed.
//
// # Guarantees
//
// The pages load nothing from other hosts, and run no inline script or style: their
// Content-Security-Policy refuses both. Texts of clients, such as keys, are text nodes.
//
// The files contain no data, so they need no credentials. The API does.
package console
