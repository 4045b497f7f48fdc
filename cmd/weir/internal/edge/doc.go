// Package edge compiles policies for edge/nginx, which decides about requests in nginx
// by the same rules, keys and script as Weir.
package edge
