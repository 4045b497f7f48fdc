// Package flashsale_test runs the flash sale with real servers and faults: Redis (single,
// Sentinel, Cluster), PostgreSQL, nginx with Lua, the gateway, and a browser.
package flashsale_test
