package guard

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Key joins parts into one key. A single part is used as it is; several are joined by commas,
// with a backslash before every comma and backslash in them. A part is formatted by fmt.Sprint,
// except that a []byte is text. Different lists of the same length have different keys, unless
// their texts differ only in surrounding space. Without parts the key is empty.
func Key(parts ...any) string {
	switch len(parts) {
	case 0:
		return ""
	case 1:
		return text(parts[0])
	}
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteByte(',')
		}
		escape(&b, text(p))
	}
	return b.String()
}

// text formats a part, without reflection for common types.
func text(part any) string {
	switch p := part.(type) {
	case string:
		return p
	case []byte:
		return string(p)
	case int:
		return strconv.Itoa(p)
	case int64:
		return strconv.FormatInt(p, 10)
	}
	return fmt.Sprint(part)
}

func escape(b *strings.Builder, s string) {
	for {
		i := strings.IndexAny(s, `,\`)
		if i < 0 {
			b.WriteString(s)
			return
		}
		b.WriteString(s[:i])
		b.WriteByte('\\')
		b.WriteByte(s[i])
		s = s[i+1:]
	}
}

// maxName is the length of the longest name of a policy.
const maxName = 64

// Name returns the default name of the guard of a function: the import path, the receiver's type
// and the function, joined by dots, in the form of policy.Config.Name. Example:
// Name("example.com/shop", "*Service", "GetID") is "example.com.shop.Service.GetID". Slashes of
// the path become dots; the star, parentheses and type parameters of a receiver are dropped.
// Letters that names do not have become '_'. A name that is too long is cut at its beginning.
// Both kinds get a hash, so that they stay different.
//
// A method order.Get in example.com/shop and a function Get in example.com/shop/order
// have the same name: set the name of one of them.
func Name(path, receiver, function string) string {
	receiver = strings.Trim(receiver, "()*")
	receiver, _, _ = strings.Cut(receiver, "[")
	var words []string
	for _, w := range []string{strings.ReplaceAll(path, "/", "."), receiver, function} {
		if w != "" {
			words = append(words, w)
		}
	}
	whole := strings.Join(words, ".")
	name := strings.TrimLeft(strings.Map(letter, whole), "._-")
	if name == whole && name != "" && name != systemName && len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(whole))
	hash := "-" + hex.EncodeToString(sum[:4])
	if most := maxName - len(hash); len(name) > most {
		name = strings.TrimLeft(name[len(name)-most:], "._-")
	}
	if name == "" {
		name = "function"
	}
	return name + hash
}

// letter returns r if names can contain it, or else '_'.
func letter(r rune) rune {
	if r < 0x80 && isLetter(byte(r)) || r == '.' || r == '_' || r == '-' {
		return r
	}
	return '_'
}

func isLetter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// isName reports whether s has the form of policy.Config.Name.
func isName(s string) bool {
	if s == "" || len(s) > maxName || !isLetter(s[0]) {
		return false
	}
	for i := 1; i < len(s); i++ {
		if c := s[i]; !isLetter(c) && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}
