package policy

import "net/netip"

// Attributes has the properties of a request, independent of protocols. Interfaces implement
// it.
type Attributes interface {
	// Method returns the method as sent, such as "GET".
	Method() string

	// Host returns the host as sent, with or without a port.
	Host() string

	// Path returns the path as sent, with escapes. Text from a '?' on is ignored.
	Path() string

	// Header returns the values of every line of a header. The name is in canonical form
	// (see http.CanonicalHeaderKey). The caller must not modify the values.
	Header(name string) []string

	// Query returns the values of a query parameter.
	Query(name string) []string

	// Cookie returns the values of a cookie.
	Cookie(name string) []string

	// ClientIP returns the address of the client, or the zero Addr if it is unknown.
	ClientIP() netip.Addr
}

// BodyAttributes are the Attributes of an interface that reads the bodies of requests. For other
// interfaces, key parts of the sources Form and JSON are the anonymous part.
type BodyAttributes interface {
	Attributes

	// Form returns the value of a field of a form in the body, or "" if there is no single one.
	Form(name string) string

	// JSON returns the text of a member of a JSON body, whose path has names joined by dots, or
	// "" if there is no single one.
	JSON(path string) string
}
