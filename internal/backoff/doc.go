// Package backoff paces the requests of a client: it takes tokens from a budget before a
// request is sent, and sends nothing to a server that asked for a pause. Packages transport
// and rpclimit are made of it.
package backoff
