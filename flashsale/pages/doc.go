// Package pages is what buyers and merchants see in a browser: HTML, style and scripts,
// embedded, without a build step and without anything from another host.
//
// A page holds no data. Its script asks the HTTP interface (flashsale/API.md) of the
// listener that served it, so that a page can be kept by whoever stands in front, and so
// that a buyer who reloads it, or comes back to it, sees what the server says.
//
// # Files
//
// Scripts and styles have a hash of all of them in their address and never change there.
// Pages are asked about each time (no-cache) and have an ETag.
//
// # Languages
//
// English and Chinese. ?lang=en or ?lang=zh chooses one and is remembered in the cookie
// fs_lang; without it Accept-Language does.
//
// # Time
//
// A countdown runs on the server's time: the script measures how far the server's clock is
// from a clock of the browser that nobody can set, takes half of the way there and back
// off, and measures again every now and then. The clock of the buyer's device has no part.
package pages
