// Package weircaddy limits the requests of Caddy by a policy file. It is the module
// http.handlers.weir, with the directive weir:
//
//	shop.example {
//		weir {
//			file /etc/caddy/weir.yaml
//		}
//		reverse_proxy 127.0.0.1:3000
//	}
//
// Build Caddy with it:
//
//	xcaddy build --with github.com/floodweir/weir/contrib/caddy
//
// Package httplimit describes denials, response fields and counting by the response. The
// directive runs before basic_auth, unless a route or the option order places it.
//
// # The file
//
// A handler uses the policies and the store of the file, failover, and the fields of gateway
// about clients, response fields and bodies of keys. The store is in memory if the file names
// none. The option store of the directive replaces it. Handlers with one store share their
// limits. A relative path is relative to the working directory of Caddy, which does not start
// without its store.
//
// # Client address
//
// The section gateway of the file defines it. The trusted_proxies of Caddy are not used.
//
// # Reload
//
// A change of the file applies when Caddy loads its configuration:
//
//	caddy reload --force
//
// Keys keep their state, also in memory and if their limit changes. Requests that wait end by
// the policies with which they began. If the new configuration is invalid, Caddy keeps the one
// before.
package weircaddy
