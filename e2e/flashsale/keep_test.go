// Package flashsale_test runs the flash sale with real servers: Redis alone, behind Sentinel
// and as a Cluster, PostgreSQL, nginx with Lua, the gateway, and a browser.
package flashsale_test

import (
	_ "github.com/floodweir/weir/flashsale/sale"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/valyala/fasthttp"
	_ "modernc.org/sqlite"
)
