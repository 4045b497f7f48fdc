package policy

import (
	"crypto/sha256"
	"encoding/base64"
	"net/netip"
	"strconv"
	"strings"

	"github.com/floodweir/weir/policy/internal/spelling"
)

// A key is the [Policy.Bucket] of its policy, which is its name if it is in no zone, and
// then, for each part,
//
//	|LENGTH:VALUE    a value and its length in bytes
//	|-               no value: the anonymous part
//
// as in "api-per-client|11:203.0.113.7". A bucket has no '|', and a length
// says where its value ends, so different lists of values make different keys. A key
// that would be longer than maxKey is "BUCKET|#" and the SHA-256 of all that follows
// the bucket, which no part begins with.
const maxKey = 128

// A source is a request: where the parts of a key come from.
type source struct {
	a     Attributes
	host  string // as spelling.HostName gives it
	paths spelling.Readings
	seen  *view // what expressions see

	// What the policy that was matched last found.
	pattern string // the path pattern that matched
	reading int    // the reading of the path that did
	err     error  // the first that an expression had
}

// appendKey appends the key of a request, however long it is.
func (p *Policy) appendKey(b []byte, s *source) []byte {
	b = append(b, p.bucket...)
	for i := range p.parts {
		b = p.parts[i].append(b, p, s)
	}
	return b
}

// key is the key that a store is asked about: what follows the bucket is replaced by
// its hash in one that would be too long.
func (p *Policy) key(whole []byte) string {
	if len(whole) <= maxKey {
		return string(whole)
	}
	sum := sha256.Sum256(whole[len(p.bucket):])
	var text [43]byte
	base64.RawURLEncoding.Encode(text[:], sum[:])
	return p.bucket + "|#" + string(text[:])
}

func appendValue(b []byte, value string) []byte {
	if value == "" {
		return append(b, "|-"...)
	}
	b = append(b, '|')
	b = strconv.AppendInt(b, int64(len(value)), 10)
	b = append(b, ':')
	return append(b, value...)
}

// nextValue is the first value of what appendValue appended, and what follows it.
func nextValue(parts []byte) (value, rest []byte) {
	n, i := 0, 1
	for ; i < len(parts) && parts[i] >= '0' && parts[i] <= '9'; i++ {
		n = 10*n + int(parts[i]-'0')
	}
	return parts[i+1 : i+1+n], parts[i+1+n:] // after a ':' or, of no value, a '-'
}

// A part is a compiled KeyPart.
type part struct {
	KeyPart
	field string // such as "key[0]"
	v6    int    // bits of an IPv6 address
	claim claim
}

func (k *part) append(b []byte, p *Policy, s *source) []byte {
	switch k.Source {
	case ClientIP:
		var text [64]byte
		value := appendAddr(text[:0], s.a.ClientIP(), k.v6)
		if len(value) == 0 {
			return append(b, "|-"...)
		}
		b = append(b, '|')
		b = strconv.AppendInt(b, int64(len(value)), 10)
		b = append(b, ':')
		return append(b, value...)
	case Header:
		return appendValue(b, k.credentials(single(s.a.Header(k.Name))))
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
		return appendValue(b, k.claim.read(single(s.a.Header(k.claim.header))))
	case CEL:
		text, err := k.Of.Eval(s.view(s.reading))
		if err != nil {
			s.fault(p, k.field, err)
			text = ""
		}
		return appendValue(b, strings.TrimSpace(text))
	default:
		return appendValue(b, k.Name)
	}
}

// single is the one value that values agree on. Two different values are none:
// whoever reads the request next may take either, so a client could choose one for
// the key and the other for itself.
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

// credentials is the one spelling of a value of Authorization, whose scheme has no case
// and ends at any space (RFC 9110, section 11.4): or a client would have a bucket for
// each of "Bearer", "bearer" and "BEARER". Values of other headers are as they are.
func (k *part) credentials(value string) string {
	if !isCredentials(k.Name) {
		return value
	}
	i := strings.IndexAny(value, " \t")
	if i < 0 {
		return value
	}
	return strings.ToLower(value[:i]) + " " + strings.TrimLeft(value[i:], " \t")
}

// isCredentials reports whether the value of a header begins with a scheme.
func isCredentials(header string) bool {
	return header == "Authorization" || header == "Proxy-Authorization"
}

// appendAddr appends the bucket of an address: an IPv4 address itself, in whatever
// form it came, and the network of an IPv6 address. It appends nothing for the zero
// Addr.
func appendAddr(b []byte, a netip.Addr, v6 int) []byte {
	a = a.Unmap().WithZone("")
	if !a.IsValid() || a.Is4() || v6 == 128 {
		return a.AppendTo(b)
	}
	p, _ := a.Prefix(v6) // v6 is from 1 to 128
	return p.AppendTo(b)
}

// standardMethods are the methods that HTTP defines.
const standardMethods = "GET HEAD POST PUT PATCH DELETE CONNECT OPTIONS TRACE"

// method is the method of a key. Methods that nobody listed are one, or each that a
// client makes up would be a bucket.
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
