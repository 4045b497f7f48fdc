package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
)

// Proof names how the identity of a buyer was proven.
type Proof string

// The proofs. A guest has None.
const (
	None     Proof = ""
	ByJWT    Proof = "jwt"
	ByOIDC   Proof = "oidc"
	ByMyShop Proof = "shop" // by an implementation of Buyers of the shop itself
)

// MaxID is the maximum length of Buyer.ID in bytes.
const MaxID = 128

// Buyer is the person who sends a request.
type Buyer struct {
	// ID identifies the buyer: 1 to MaxID bytes of text without control characters, always the
	// same for one person.
	ID string

	// Guest is true if nothing proves who it is. Such a buyer has a Proof of None.
	Guest bool

	Proof Proof
}

// Buyers returns the buyer of a request. It is called concurrently. An implementation verifies
// what the request contains, and trusts no header that a browser can set at will.
//
// ErrNone means that the request has no credentials; the buyer is then a guest. ErrInvalid means
// that they are not accepted, and the request is refused. Any other error means that nothing is
// known, and the request is refused with a retry time.
type Buyers interface {
	Buyer(r *http.Request) (Buyer, error)
}

var (
	// ErrNone means that a request has no credentials.
	ErrNone = errors.New("identity: no credentials")

	// ErrInvalid means that credentials are not accepted.
	ErrInvalid = errors.New("identity: credentials not accepted")
)

// userID returns the ID of a subject of an issuer.
func userID(issuer, subject string) string {
	sum := sha256.Sum256([]byte(issuer + "|" + subject))
	return hex.EncodeToString(sum[:])
}
