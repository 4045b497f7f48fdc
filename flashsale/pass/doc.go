// Package pass signs the texts that a buyer holds: the session, the ticket, the admission token
// and the receipt. It also signs the callbacks of a payment provider, the CSRF value of a
// merchant's session and its binding to the password. It sets the challenges of proofs of work
// ([Keys.Work]).
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
// where a field is a length byte and that many bytes, or an integer of 8 bytes in big-endian
// order. Every kind has its own key, so a string of one kind is not valid as another. Every
// signed string has one spelling; any other is refused.
//
// # Errors
//
// An invalid string is [ErrBad]. A valid one that has expired is [ErrExpired].
//
// # Concurrency
//
// Keys is safe for concurrent use.
package pass
