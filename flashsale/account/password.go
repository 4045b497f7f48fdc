package account

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
)

// MaxPassword is the maximum length of a password, in bytes.
const MaxPassword = 256

// The minimum length of a password, in bytes, and the cost of a hash: 19 MiB, two passes.
const (
	minPassword = 8

	hashMemory = 19 << 10
	hashTime   = 2
	hashSize   = 32
	saltSize   = 16
)

// HashPassword returns the argon2id hash of a password in the PHC format. A password has 8 to
// 256 bytes of UTF-8.
func HashPassword(password string) (string, error) {
	if len(password) < minPassword || len(password) > MaxPassword {
		return "", fmt.Errorf("account: password: %d bytes: want %d to %d", len(password), minPassword, MaxPassword)
	}
	if !utf8.ValidString(password) {
		return "", errors.New("account: password: want UTF-8, got other bytes")
	}
	salt := make([]byte, saltSize)
	rand.Read(salt) // never fails
	sum := argon2.IDKey([]byte(password), salt, hashTime, hashMemory, 1, hashSize)
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=1$%s$%s", argon2.Version, hashMemory, hashTime,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(sum)), nil
}

// NewPassword returns a random password of 130 bits.
func NewPassword() string { return strings.ToLower(rand.Text()) }

// IsPassword reports whether hash is the hash of the password. An empty hash matches no
// password, after the same work.
func IsPassword(hash, password string) (bool, error) {
	p := phc{memory: hashMemory, time: hashTime, threads: 1, salt: make([]byte, saltSize), sum: make([]byte, hashSize)}
	if hash != "" {
		var err error
		if p, err = parsePHC(hash); err != nil {
			return false, err
		}
	}
	return p.is(password) && hash != "", nil
}

// phc is a parsed password hash.
type phc struct {
	memory, time uint32
	threads      uint8
	salt, sum    []byte
}

// parsePHC parses a hash. It refuses one that would cost more than 256 MiB or 16 passes.
func parsePHC(text string) (phc, error) {
	bad := fmt.Errorf("account: password hash: want $argon2id$v=19$m=…,t=…,p=…$salt$sum")
	parts := strings.Split(text, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return phc{}, bad
	}
	var p phc
	if n, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &p.memory, &p.time, &p.threads); err != nil || n != 3 {
		return phc{}, bad
	}
	var errSalt, errSum error
	p.salt, errSalt = base64.RawStdEncoding.DecodeString(parts[4])
	p.sum, errSum = base64.RawStdEncoding.DecodeString(parts[5])
	if errSalt != nil || errSum != nil || len(p.salt) < 8 || len(p.salt) > 64 || len(p.sum) < 16 || len(p.sum) > 64 ||
		p.memory < 8 || p.memory > 256<<10 || p.time < 1 || p.time > 16 || p.threads < 1 || p.threads > 8 {
		return phc{}, bad
	}
	return p, nil
}

// is reports whether p is the hash of the password, in constant time.
func (p phc) is(password string) bool {
	sum := argon2.IDKey([]byte(password), p.salt, p.time, p.memory, p.threads, uint32(len(p.sum)))
	return subtle.ConstantTimeCompare(sum, p.sum) == 1
}
