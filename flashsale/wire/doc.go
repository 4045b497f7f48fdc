// Package wire reads requests and writes responses for the two HTTP interfaces of a flash sale,
// packages web and office.
//
// # Requests
//
// A body is one flat JSON object in UTF-8 of at most 16 KiB. A member that is unknown, given
// twice, nested, null or of another type is refused by name, and so is anything after the
// object. Names are case-sensitive. A path has one spelling ([IsCanonicalPath]).
//
// # Responses
//
// A refusal is a problem (RFC 9457) of package layers. A [RequestError] describes a request that
// is not accepted. [Failure] converts an error of a service to a refusal. Frequent responses
// are appended to a buffer without reflection.
package wire
