package policy

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/policy/internal/jwt"
	"github.com/floodweir/weir/policy/internal/spelling"
)

// maxText is the longest name, pattern or value in a policy, in bytes.
const maxText = spelling.MaxText

// A Source selects the source of a part of a key.
type Source string

// The sources.
const (
	// ClientIP is the address of the client: an IPv4 address, or the first 64 bits of an IPv6
	// address. Name may be the number of bits to keep of an IPv6 address, from 1 to 128.
	ClientIP Source = "client.ip"
	// Header is the header Name. Use a header that another component has verified: a client
	// can otherwise choose its bucket.
	Header Source = "header"
	// Query is the query parameter Name.
	Query Source = "query"
	// Cookie is the cookie Name.
	Cookie Source = "cookie"
	// Path is the pattern of Match.Paths that matched.
	Path Source = "path"
	// Method is the method. Methods that neither HTTP nor Match.Methods lists are one.
	Method Source = "method"
	// Host is the host name, without case, port and trailing dot. It requires Match.Hosts.
	Host Source = "host"
	// Claim is the claim Name of a JSON Web Token that another component HAS VERIFIED, such as
	// sub. If no claim has the name, it is a path of members joined by dots, such as
	// address.country. The token is the Bearer of Authorization. After the last @ in Name, the
	// name of another header may follow, which has a whole token or its payload alone.
	//
	// This package does not verify the token. Without a component that rejects forged tokens
	// and removes the header that clients send, a client can choose any bucket. A claim that
	// is not text, a number or a boolean is the anonymous part. So is a claim of a token that
	// is malformed or above 16 KiB. A number is its value, in any form.
	Claim Source = "claim"
	// Form is the field Name of a form in the body: urlencoded, or multipart without a file.
	//
	// A field of a body has its value without space around it, and in lower case. A body that
	// is missing, too long, too slow, malformed or encoded gives the anonymous part. So does a
	// field with several values, or several spellings of its name.
	Form Source = "form"
	// JSON is a text, number or boolean in a JSON body. Name is its path: names of members joined
	// by dots, such as user.email. Arrays are not searched. Form describes the value.
	JSON Source = "json"
	// CEL is the text that Of returns, without space around it. Name is empty.
	CEL Source = "cel"
	// Constant is the text Name.
	Constant Source = "const"
)

// A KeyPart is one part of a key.
type KeyPart struct {
	Source Source
	Name   string             // see the sources; empty for those that do not mention it
	Of     Expression[string] // of CEL
}

// ParseKeyPart parses client.ip, client.ip/56, header:NAME, query:NAME, cookie:NAME,
// claim:NAME, claim:NAME@HEADER, form:FIELD, json:PATH, path, method, host or const:TEXT. Expressions need a
// compiler: package weirfile has one. An error wraps weir.ErrInvalid.
func ParseKeyPart(text string) (KeyPart, error) {
	source, name, named := strings.Cut(text, ":")
	if !named {
		if bits, ok := strings.CutPrefix(text, string(ClientIP)+"/"); ok {
			source, name, named = string(ClientIP), bits, true
		}
	} else if source == string(ClientIP) {
		named, source = false, text // its bits follow a slash
	}
	k := KeyPart{Source: Source(source), Name: name}
	if k.Source == CEL {
		return KeyPart{}, fmt.Errorf("policy: key part %s: %w: got an expression, which needs a compiler such as that of package weirfile", fault.Quote(text), weir.ErrInvalid)
	}
	if want := k.fault(); want != "" || named && name == "" {
		if want == "" {
			want = wantKeyPart
		}
		return KeyPart{}, fmt.Errorf("policy: key part %s: %w: %s", fault.Quote(text), weir.ErrInvalid, want)
	}
	return k, nil
}

// String returns k in the grammar of ParseKeyPart, or cel: and the text of an expression.
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

const wantKeyPart = "want client.ip, client.ip/BITS, header:NAME, query:NAME, cookie:NAME, claim:NAME, form:FIELD, json:PATH, path, method, host or const:TEXT"

// fault returns the accepted values if k is invalid, and otherwise "".
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
		if !spelling.IsToken(k.Name) {
			return fmt.Sprintf("want %s:NAME with a name as HTTP has them: letters, digits and !#$%%&'*+-.^_`|~", k.Source)
		}
		if k.Source == Header && strings.EqualFold(k.Name, "Host") {
			return "want host, which knows case and ports"
		}
	case JSON:
		if !isJSONPath(k.Name) {
			return "want json:PATH with names of members joined by dots, such as json:email or json:user.email"
		}
	case Query, Constant, Form:
		if !spelling.IsText(k.Name) {
			return fmt.Sprintf("want %s:TEXT with 1 to %d bytes of text without control characters", k.Source, maxText)
		}
	case Claim:
		if c := k.claim(); !spelling.IsText(c.Name) || !spelling.IsToken(c.Header) {
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

// bits returns the bits of an IPv6 address that are kept.
func (k KeyPart) bits() (int, bool) {
	if k.Name == "" {
		return 64, true
	}
	n, err := strconv.Atoi(k.Name)
	return n, err == nil && n >= 1 && n <= 128 && strconv.Itoa(n) == k.Name
}

// claim returns the claim of a part of Source Claim.
func (k KeyPart) claim() jwt.Claim {
	name, header := k.Name, "Authorization"
	if i := strings.LastIndexByte(name, '@'); i >= 0 {
		name, header = name[:i], canonical(name[i+1:])
	}
	return jwt.Claim{Name: name, Header: header, Bearer: spelling.IsCredentials(header)}
}

// ReadClaim returns the value of a part of Source Claim for a request: the text of the claim, or ""
// for the anonymous part. It does not verify the token.
func (k KeyPart) ReadClaim(a Attributes) string {
	c := k.claim()
	return c.Read(single(a.Header(c.Header)))
}
