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

// MaxNonce is the longest nonce that is looked at.
const MaxNonce = 16

// Work is what a user has to work on for a ticket of a sale: to find a nonce with which the
// SHA-256 of challenge:nonce begins with enough zero bits. It is nobody else's and no other
// sale's, always the same, and kept nowhere. Of an ID above MaxField it is "".
func (k *Keys) Work(sale, user string) (challenge string) {
	w := write().text(sale, user)
	if !w.fits() {
		return ""
	}
	return spelled(k.current[work].sum(nil, w.b))
}

// WorkDone is how many zero bits the user's nonce for the sale has found; 0 if it is none
// (see [IsNonce]). It takes the same time whatever the nonce. During a change of secrets
// work on the older challenge counts, too.
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

// Solve does the work: it finds a nonce with bits zero bits, 2^bits hashes on the average.
// It fails only when ctx is done.
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

// zeros is how many zero bits the hash of challenge:nonce begins with, up to 64.
func zeros[T string | []byte](challenge string, nonce T) int {
	var room [64]byte
	sum := sha256.Sum256(append(append(append(room[:0], challenge...), ':'), nonce...))
	return bits.LeadingZeros64(binary.BigEndian.Uint64(sum[:]))
}
