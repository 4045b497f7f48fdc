// Package flashsale_test runs the flash sale with real servers: Redis alone, behind Sentinel
// and as a Cluster, PostgreSQL, nginx with Lua, the gateway, and a browser; and kills it.
package flashsale_test
