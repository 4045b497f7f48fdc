// Package nginx is the Lua that decides about requests in nginx and OpenResty, to be
// written where they find it. README.md describes it.
package nginx

import "embed"

// Files are weir.lua and the directory weir.
//
//go:embed weir.lua weir/*.lua
var Files embed.FS
