// Package identity identifies the buyers of a flash sale. A shop implements [Buyers] in its own
// module, on its own sessions, or uses [JWT] (a token that the shop signs) or [OIDC] (a login at
// an OpenID provider).
//
//	j, err := identity.NewJWT(identity.JWTConfig{Algorithm: "EdDSA", Issuer: "https://shop.example", Key: key})
//	buyer, err := j.Buyer(r)
//
// The flash sale calls Buyers when a page opens a session (POST /api/session). The session then
// names the buyer by a signed cookie of its own. Headers that only name a user are never read.
//
// # Guests
//
// A buyer without an identity is a guest. Where buyers can have one, a guest gets one unit of a
// sale, and none of a sale for members only.
package identity
