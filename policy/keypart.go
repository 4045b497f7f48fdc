package policy

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/policy/internal/spelling"
)

// maxText is the longest name, pattern or value in a policy, in bytes.
const maxText = spelling.MaxText

// A Source says where a part of a key comes from.
type Source string

// The sources.
const (
	// ClientIP is the client's address: an IPv4 address whole, an IPv6 address cut to
	// its first 64 bits. Name may be the number of bits to keep of an IPv6 address
	// instead, from 1 to 128.
	ClientIP Source = "client.ip"
	// Header is the header Name. What a client chooses freely limits nobody: use a
	// header that something in front of the door has verified.
	Header Source = "header"
	// Query is the query parameter Name.
	Query Source = "query"
	// Cookie is the cookie Name.
	Cookie Source = "cookie"
	// Path is the pattern of Match.Paths that matched.
	Path Source = "path"
	// Method is the method. Methods that neither HTTP defines nor Match.Methods lists
	// are one.
	Method Source = "method"
	// Host is the host name, without case, port and trailing dot. It needs Match.Hosts.
	Host Source = "host"
	// Claim is the claim Name of a JSON Web Token that something in front of the door
	// HAS VERIFIED: sub or, if no claim is called so, a path of members joined by dots
	// as address.country. The token is the Bearer of Authorization or, after the last @
	// in Name, another header's value: a whole token, or its payload alone.
	//
	// The token is read here, not verified: where nothing in front refuses forged
	// tokens and removes the header that clients send themselves, a client has a bucket
	// for every claim that it makes up, and any other client's. A claim that is not
	// text, a number or a boolean is the anonymous part, and so is one of a token that
	// is malformed or above 16 KiB. A number is its value, however it is written.
	Claim Source = "claim"
	// CEL is the text that Of returns, without space around it. Name is empty.
	CEL Source = "cel"
	// Constant is the text Name.
	Constant Source = "const"
)

// A KeyPart is one part of what names a bucket.
type KeyPart struct {
	Source Source
	Name   string             // see the sources; empty for those that do not mention it
	Of     Expression[string] // of CEL
}

// ParseKeyPart reads a part from text: client.ip, client.ip/56, header:NAME,
// query:NAME, cookie:NAME, claim:NAME, claim:NAME@HEADER, path, method, host or
// const:TEXT. It reads no expression, which needs a compiler. An error wraps
// weir.ErrInvalid.
func ParseKeyPart(text string) (KeyPart, error) {
	source, name, named := strings.Cut(text, ":")
	if !named {
		if bits, ok := strings.CutPrefix(text, string(ClientIP)+"/"); ok {
			source, name, named = string(ClientIP), bits, true
		}
	} else if source == string(ClientIP) {
		named, source = false, text // its bits stand after a slash
	}
	k := KeyPart{Source: Source(source), Name: name}
	if k.Source == CEL {
		return KeyPart{}, fmt.Errorf("policy: key part %s: %w: an expression needs a compiler, as package weirfile has one", fault.Quote(text), weir.ErrInvalid)
	}
	if want := k.fault(); want != "" || named && name == "" {
		if want == "" {
			want = wantKeyPart
		}
		return KeyPart{}, fmt.Errorf("policy: key part %s: %w: %s", fault.Quote(text), weir.ErrInvalid, want)
	}
	return k, nil
}

// String is k in the grammar of ParseKeyPart, or cel: and the text of an expression.
func (k KeyPart) String() string {
	switch {
	case k.Source == CEL && k.Of != nil:
		return string(k.Source) + ":" + k.Of.String()
	case k.Name == "":
		return string(k.Source)
	case k.Source == ClientIP:
		return string(k.Source) + "/" + k.Name
	}
	return string(k.Source) + ":" + k.Name
}

const wantKeyPart = "want client.ip, client.ip/BITS, header:NAME, query:NAME, cookie:NAME, claim:NAME, path, method, host or const:TEXT"

// fault is what k should have been, or "".
func (k KeyPart) fault() string {
	if k.Of != nil && k.Source != CEL {
		return fmt.Sprintf("want no expression with %s", k.Source)
	}
	switch k.Source {
	case ClientIP:
		if _, ok := k.bits(); !ok {
			return "want client.ip, or client.ip/BITS with the 1 to 128 bits of an IPv6 address that share a bucket"
		}
	case Path, Method, Host:
		if k.Name != "" {
			return fmt.Sprintf("want %s alone, without a name", k.Source)
		}
	case Header, Cookie:
		if !isToken(k.Name) {
			return fmt.Sprintf("want %s:NAME with a name as HTTP has them: letters, digits and !#$%%&'*+-.^_`|~", k.Source)
		}
		if k.Source == Header && strings.EqualFold(k.Name, "Host") {
			return "want host, which knows case and ports"
		}
	case Query, Constant:
		if !isText(k.Name) {
			return fmt.Sprintf("want %s:TEXT with 1 to %d bytes of text without control characters", k.Source, maxText)
		}
	case Claim:
		if c := k.claim(); !isText(c.name) || !isToken(c.header) {
			return "want claim:NAME or claim:NAME@HEADER, such as claim:sub or claim:sub@X-Jwt-Payload"
		}
	case CEL:
		if k.Of == nil || k.Name != "" {
			return "want an expression that was compiled, and no name"
		}
	default:
		return wantKeyPart
	}
	return ""
}

// bits is how much of an IPv6 address is kept.
func (k KeyPart) bits() (int, bool) {
	if k.Name == "" {
		return 64, true
	}
	n, err := strconv.Atoi(k.Name)
	return n, err == nil && n >= 1 && n <= 128 && strconv.Itoa(n) == k.Name
}

// isToken reports whether s is a token of HTTP (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != "" && len(s) <= maxText
}

// isText reports whether s can be a name or a constant.
func isText(s string) bool {
	return s != "" && len(s) <= maxText && utf8.ValidString(s) && !spelling.HasControl(s)
}
