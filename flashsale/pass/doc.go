// Package pass signs what a buyer carries: the session, the place in the line, the
// admission token, the receipt; and what others are told to prove by: the callback of a
// payment provider, the CSRF value of an office's session, and the password that it is
// bound to. It also sets the work that a ticket may cost ([Keys.Work]).
//
//	keys, err := pass.NewKeys(secret) // 32 bytes
//	…
//	cookie := keys.Session(pass.Session{User: user, Expires: now.Add(24 * time.Hour)})
//	…
//	s, err := keys.OpenSession(cookie, now)
//
// A signed string is base64url without padding of
//
//	version 1 | fields | HMAC-SHA-256 over version and fields
//
// where a field is a byte of length and so many bytes, or 8 bytes of an integer, the most
// significant first. Every kind has a key of its own, so that no kind passes for another.
// There is one spelling of what is signed: any other is refused.
//
// # Errors
//
// What is not accepted is [ErrBad], and [ErrExpired] if only its time is over.
//
// # Concurrency
//
// Keys are safe for concurrent use.
package pass
