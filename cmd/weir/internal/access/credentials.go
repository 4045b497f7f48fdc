package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/floodweir/weir"
)

// A user is one token.
type user struct {
	name string
	role Role
	hash [sha256.Size]byte // of the token

	removed context.Context // ends when the token is removed or its line changes
	remove  context.CancelFunc
}

func newUser(name string, role Role, hash [sha256.Size]byte) *user {
	u := &user{name: name, role: role, hash: hash}
	u.removed, u.remove = context.WithCancel(context.Background())
	return u
}

func (u *user) equal(o *user) bool { return u.name == o.name && u.role == o.role && u.hash == o.hash }

// maxUsers is the maximum number of lines with a token.
const maxUsers = 256

// nameForm matches names of actors.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}$`)

// NewToken returns a random token and its line for a file of tokens.
func NewToken(role Role, name string) (token, line string, err error) {
	switch {
	case role != Read && role != Operate:
		return "", "", fmt.Errorf("role %.20q: want read or operate", role)
	case !nameForm.MatchString(name):
		return "", "", fmt.Errorf("name %.70q: want 1 to %d letters, digits and ._@+-", name, maxName)
	}
	token = rand.Text()
	hash := sha256.Sum256([]byte(token))
	return token, fmt.Sprintf("%s %s %s", role, name, hex.EncodeToString(hash[:])), nil
}

// users reads credentials: one plain token, whose user is admin and may operate, or lines
// of the form ROLE NAME SHA256. Errors do not quote them, because they may be secret.
func (c *Config) users(credentials string) ([]*user, error) {
	if credentials == "" {
		return nil, nil
	}
	if !strings.ContainsAny(credentials, " \t\r\n#") {
		if err := c.check(credentials); err != nil {
			return nil, err
		}
		return []*user{newUser(adminName, Operate, sha256.Sum256([]byte(credentials)))}, nil
	}
	var all []*user
	number := 0
	for line := range strings.Lines(credentials) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		u, expected := parseUser(fields)
		for _, other := range all {
			if u != nil && other.hash == u.hash {
				expected = "a token that no other line has"
			}
		}
		if len(all) == maxUsers {
			expected = fmt.Sprintf("at most %d tokens", maxUsers)
		}
		if expected != "" {
			return nil, fmt.Errorf("%s: token: line %d: %w: want %s", c.Interface, number, weir.ErrInvalid, expected)
		}
		all = append(all, u)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: token: %w: want a token, or at least one line ROLE NAME SHA256 (see weir token)", c.Interface, weir.ErrInvalid)
	}
	return all, nil
}

// parseUser returns the user of a line, or what the line should be.
func parseUser(fields []string) (u *user, expected string) {
	if len(fields) != 3 {
		return nil, "a token without spaces in a file of its own, or ROLE NAME SHA256 (see weir token)"
	}
	role := Role(fields[0])
	var hash [sha256.Size]byte
	n, err := hex.Decode(hash[:], []byte(fields[2][:min(len(fields[2]), 2*len(hash))]))
	switch {
	case role != Read && role != Operate:
		return nil, "the role read or operate"
	case !nameForm.MatchString(fields[1]):
		return nil, fmt.Sprintf("a name of 1 to %d letters, digits and ._@+-", maxName)
	case err != nil || n != len(hash) || len(fields[2]) != 2*len(hash):
		return nil, "the SHA-256 of the token, 64 hexadecimal digits (see weir token)"
	}
	return newUser(fields[1], role, hash), ""
}
