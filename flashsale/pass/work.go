package pass

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
)

// MaxNonce is the maximum length of a nonce.
const MaxNonce = 16

// Work returns the challenge of a user for a ticket of a sale. The proof of work is a nonce for
// which the SHA-256 of challenge:nonce begins with enough zero bits. A challenge is valid for
// this user and this sale only, is always the same, and is not stored. For an ID above MaxField
// it is empty.
func (k *Keys) Work(sale, user string) (challenge string) {
	w := write().text(sale, user)
	if !w.fits() {
		return ""
	}
	return spelled(k.current[work].sum(nil, w.b))
}

// WorkDone returns how many zero bits the user's nonce for the sale has; 0 if it is not a nonce
// (see [IsNonce]). It takes the same time for every nonce. While a secret is replaced, work on
// the older challenge counts too.
func (k *Keys) WorkDone(sale, user, nonce string) int {
	w := write().text(sale, user)
	if !w.fits() || !IsNonce(nonce) {
		return 0
	}
	n := zeros(spelled(k.current[work].sum(nil, w.b)), nonce)
	if k.older != nil {
		n = max(n, zeros(spelled(k.older[work].sum(nil, w.b)), nonce))
	}
	return n
}

// IsNonce reports whether s is 1 to 16 letters, digits, - and _.
func IsNonce(s string) bool {
	if s == "" || len(s) > MaxNonce {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// Solve finds a nonce with bits zero bits, with 2^bits hashes on average. It fails only if ctx
// ends.
func Solve(ctx context.Context, challenge string, bits int) (nonce string, err error) {
	var room [MaxNonce]byte
	for i := uint64(0); ; i++ {
		text := strconv.AppendUint(room[:0], i, 36)
		if zeros(challenge, text) >= bits {
			return string(text), nil
		}
		if i&0xfff == 0 && ctx.Err() != nil {
			return "", fmt.Errorf("pass: work of %d bits after %d hashes: %w", bits, i, context.Cause(ctx))
		}
	}
}

func spelled(mac []byte) string { return base64.RawURLEncoding.EncodeToString(mac) }

// zeros returns the number of zero bits at the beginning of the hash of challenge:nonce, up to
// 64.
func zeros[T string | []byte](challenge string, nonce T) int {
	var room [64]byte
	sum := sha256.Sum256(append(append(append(room[:0], challenge...), ':'), nonce...))
	return bits.LeadingZeros64(binary.BigEndian.Uint64(sum[:]))
}
