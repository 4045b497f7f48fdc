// Package edge compiles policies for edge/nginx, which decides requests in nginx with
// the same keys and script.
package edge
