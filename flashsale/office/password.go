package office

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

// Limits of a name and a password, in bytes, and the cost of a hash: 19 MiB, two passes.
const (
	maxName     = 128 // of a merchant, as in the ledger
	minPassword = 8
	maxPassword = 256

	hashMemory = 19 << 10
	hashTime   = 2
	hashSize   = 32
	saltSize   = 16
)

// HashPassword returns the argon2id hash of a password in the PHC format, for
// sale.Ledger.AddMerchant. A password has 8 to 256 bytes of UTF-8.
func HashPassword(password string) (string, error) {
	if len(password) < minPassword || len(password) > maxPassword {
		return "", fmt.Errorf("office: password: %d bytes: want %d to %d", len(password), minPassword, maxPassword)
	}
	if !utf8.ValidString(password) {
		return "", errors.New("office: password: want UTF-8, got other bytes")
	}
	salt := make([]byte, saltSize)
	rand.Read(salt) // never fails
	sum := argon2.IDKey([]byte(password), salt, hashTime, hashMemory, 1, hashSize)
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=1$%s$%s", argon2.Version, hashMemory, hashTime,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(sum)), nil
}

// phc is a parsed password hash.
type phc struct {
	memory, time uint32
	threads      uint8
	salt, sum    []byte
}

// parsePHC parses a hash. It refuses one that would cost more than 256 MiB or 16 passes.
func parsePHC(text string) (phc, error) {
	bad := fmt.Errorf("office: password hash: want $argon2id$v=19$m=…,t=…,p=…$salt$sum")
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

// noPassword returns a hash with the usual cost that matches no password.
func noPassword() phc {
	return phc{memory: hashMemory, time: hashTime, threads: 1, salt: make([]byte, saltSize), sum: make([]byte, hashSize)}
}
