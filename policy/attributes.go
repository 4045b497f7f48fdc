package policy

import "net/netip"

// Attributes describe a request to a policy, in no protocol's terms. A door
// implements them.
type Attributes interface {
	// Method is the method as sent, such as "GET".
	Method() string

	// Host is the host as sent, with or without a port.
	Host() string

	// Path is the path as sent, with its escapes. From a '?' on it is ignored.
	Path() string

	// Header is the values of every line of the header with the given name, in
	// canonical form (as http.CanonicalHeaderKey makes it). The caller does not
	// change them.
	Header(name string) []string

	// Query is the values of a query parameter.
	Query(name string) []string

	// Cookie is the values of a cookie.
	Cookie(name string) []string

	// ClientIP is the address of the client, or the zero Addr if it has none.
	ClientIP() netip.Addr
}
