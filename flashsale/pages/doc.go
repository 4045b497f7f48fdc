// Package pages serves the pages for buyers and merchants: HTML, styles and scripts, embedded,
// without a build step and without anything from another host but the widget of a [Captcha].
//
// A page holds no data. Its script calls the HTTP interface (flashsale/API.md) of the listener
// that served it. Proxies can therefore cache pages, and a reloaded page shows the current
// state.
//
// # Files
//
// The addresses of scripts and styles contain a hash of all of them, so their content never
// changes. Pages are revalidated each time (no-cache) and have an ETag. The files in static/lib
// are those of the npm package uplot 1.6.32, which draws the curves of the office.
//
// # Languages
//
// English and Chinese. ?lang=en or ?lang=zh chooses one, and the cookie fs_lang remembers it.
// Without either, Accept-Language decides.
//
// # Time
//
// A countdown uses the server's time. The script measures the offset between the server's clock
// and the browser's monotonic clock, subtracts half of the round trip, and repeats the
// measurement. The clock of the buyer's device is not used.
package pages
