package policy

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/floodweir/weir/policy/internal/jwt"
	"github.com/floodweir/weir/policy/internal/spelling"
)

// maxKey is the longest key in bytes. A key is the [Policy.Bucket] and then, for each part,
//
//	|LENGTH:VALUE    a value and its length in bytes
//	|-               no value: the anonymous part
//
// as in "api-per-client|11:203.0.113.7". A bucket has no '|', and the length delimits the
// value, so different lists of values make different keys. A longer key is "BUCKET|#" and the
// SHA-256 of the text after the bucket. No part begins with '#'.
const maxKey = 128

// A source has a request and its normalized parts.
type source struct {
	a     Attributes
	host  string // from spelling.HostName
	paths spelling.PathVariants
	seen  *view // the request for expressions

	adjusted map[string]*adjusted // of the set

	// Results of the last policy that matched.
	pattern string // the pattern that matched
	variant int    // the variant of the path that matched
	err     error  // the first error of an expression
}

// appendKey appends the key of a request, of any length.
func (p *Policy) appendKey(b []byte, s *source) []byte {
	b = append(b, p.bucket...)
	for i := range p.parts {
		b = p.parts[i].append(b, p, s)
	}
	return b
}

// key returns the key for the store. In a long key a hash replaces the text after the
// bucket.
func (p *Policy) key(whole []byte) string {
	if len(whole) <= maxKey {
		return string(whole)
	}
	sum := sha256.Sum256(whole[len(p.bucket):])
	var text [43]byte
	base64.RawURLEncoding.Encode(text[:], sum[:])
	return p.bucket + "|#" + string(text[:])
}

func appendValue[T string | []byte](b []byte, value T) []byte {
	if len(value) == 0 {
		return append(b, "|-"...)
	}
	b = append(b, '|')
	b = strconv.AppendInt(b, int64(len(value)), 10)
	b = append(b, ':')
	return append(b, value...)
}

// nextValue returns the first value of the output of appendValue, and the rest.
func nextValue(parts []byte) (value, rest []byte) {
	n, i := 0, 1
	for ; i < len(parts) && parts[i] >= '0' && parts[i] <= '9'; i++ {
		n = 10*n + int(parts[i]-'0')
	}
	return parts[i+1 : i+1+n], parts[i+1+n:] // after ':', or after '-' if there is no value
}

// A part is a compiled KeyPart.
type part struct {
	KeyPart
	field string // such as "key[0]"
	v6    int    // bits of an IPv6 address that are kept
	claim jwt.Claim
}

func (k *part) append(b []byte, p *Policy, s *source) []byte {
	switch k.Source {
	case ClientIP:
		var text [64]byte
		return appendValue(b, spelling.AppendAddr(text[:0], s.a.ClientIP(), k.v6))
	case Header:
		return appendValue(b, spelling.Credentials(k.Name, single(s.a.Header(k.Name))))
	case Query:
		return appendValue(b, single(s.a.Query(k.Name)))
	case Cookie:
		return appendValue(b, single(s.a.Cookie(k.Name)))
	case Path:
		return appendValue(b, s.pattern)
	case Method:
		return appendValue(b, p.method(s.a.Method()))
	case Host:
		return appendValue(b, s.host)
	case Claim:
		return appendValue(b, k.claim.Read(single(s.a.Header(k.claim.Header))))
	case Form, JSON:
		return appendValue(b, k.inBody(s.a))
	case CEL:
		text, err := k.Of.Eval(s.view(s.variant))
		if err != nil {
			s.fault(p, k.field, err)
			text = ""
		}
		return appendValue(b, strings.TrimSpace(text))
	default:
		return appendValue(b, k.Name)
	}
}

// inBody returns the value of a field of the body.
func (k *part) inBody(a Attributes) string {
	switch b, ok := a.(BodyAttributes); {
	case !ok:
		return ""
	case k.Source == Form:
		return spelling.BodyText(b.Form(k.Name))
	default:
		return spelling.BodyText(b.JSON(k.Name))
	}
}

// single returns the value if all values are equal, and otherwise "". A server may use any
// of several values, so a client could choose one for the key and another for the server.
func single(values []string) string {
	if len(values) == 0 {
		return ""
	}
	value := strings.TrimSpace(values[0])
	for _, v := range values[1:] {
		if strings.TrimSpace(v) != value {
			return ""
		}
	}
	return value
}

// standardMethods has the methods that HTTP defines.
const standardMethods = "GET HEAD POST PUT PATCH DELETE CONNECT OPTIONS TRACE"

// method returns the method for the key. Methods that neither HTTP nor Match.Methods lists
// are one, so that clients cannot choose a bucket.
func (p *Policy) method(m string) string {
	m = strings.ToUpper(m)
	switch m { // those of standardMethods
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE":
		return m
	}
	for _, known := range p.methods {
		if m == known {
			return m
		}
	}
	return "*"
}
