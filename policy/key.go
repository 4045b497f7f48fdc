package policy

import (
	"crypto/sha256"
	"encoding/base64"
	"net/netip"
	"strconv"
	"strings"
)

// A key is the name of its policy and then, for each part,
//
//	|LENGTH:VALUE    a value and its length in bytes
//	|-               no value: the anonymous part
//
// as in "api-per-client|11:203.0.113.7". A policy's name has no '|', and a length
// says where its value ends, so different lists of values make different keys. A key
// that would be longer than maxKey is "NAME|#" and the SHA-256 of all that follows
// the name, which no part begins with.
const maxKey = 128

// source is where the parts of a key come from: a request, or an override.
type source struct {
	a       Attributes
	host    string // as hostName gives it
	pattern string // the path pattern that matched
}

// appendKey appends the key of a request.
func (p *Policy) appendKey(b []byte, s *source) []byte {
	b = append(b, p.config.Name...)
	from := len(b)
	for i := range p.parts {
		b = p.parts[i].append(b, p, s)
	}
	return fold(b, from)
}

// fold replaces what follows the name by its hash in a key that is too long.
func fold(b []byte, from int) []byte {
	if len(b) <= maxKey {
		return b
	}
	sum := sha256.Sum256(b[from:])
	b = append(b[:from], "|#"...)
	return base64.RawURLEncoding.AppendEncode(b, sum[:])
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

// A part is a compiled KeyPart.
type part struct {
	KeyPart
	v6 int // bits of an IPv6 address
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
	if k.Name != "Authorization" && k.Name != "Proxy-Authorization" {
		return value
	}
	i := strings.IndexAny(value, " \t")
	if i < 0 {
		return value
	}
	return strings.ToLower(value[:i]) + " " + strings.TrimLeft(value[i:], " \t")
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

// method is the method of a key. Methods that nobody listed are one, or each that a
// client makes up would be a bucket.
func (p *Policy) method(m string) string {
	m = strings.ToUpper(m)
	switch m {
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

// overrideKey is the key that values stand for, or the index of the first value at
// fault and what was expected.
func (p *Policy) overrideKey(values []string) (key string, at int, want string) {
	b := append([]byte(nil), p.config.Name...)
	from := len(b)
	for i := range p.parts {
		value, want := p.parts[i].override(p, values[i])
		if want != "" {
			return "", i, want
		}
		b = appendValue(b, value)
	}
	return string(fold(b, from)), 0, ""
}

// override is the value of a key that text in an override stands for, or what was
// expected.
func (k *part) override(p *Policy, text string) (value, want string) {
	if text == "" && k.Source != Constant {
		return "", "" // the anonymous part
	}
	switch k.Source {
	case ClientIP:
		return k.overrideAddr(text)
	case Path:
		for i := range p.routes {
			if p.routes[i].pattern == text {
				return text, ""
			}
		}
		return "", "want one of the patterns of match.paths, as it stands there"
	case Method:
		if m := p.method(text); m != "*" || text == "*" {
			return m, ""
		}
		return "", "want a method that HTTP defines or match.methods lists, or * for all others"
	case Host:
		if h, want := parseHost(text); want != "" || h.below {
			return "", "want a host name such as example.com, without a port"
		} else {
			return h.name, ""
		}
	case Constant:
		if text != k.Name {
			return "", "want " + quoted(k.Name) + ", the constant of the key"
		}
		return text, ""
	}
	if len(text) > maxText || text != strings.TrimSpace(text) {
		return "", "want at most " + strconv.Itoa(maxText) + " bytes without space around them"
	}
	if k.Source == Header {
		text = k.credentials(text)
	}
	return text, ""
}

func (k *part) overrideAddr(text string) (value, want string) {
	a, err := netip.ParseAddr(text)
	if err != nil {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return "", "want an address such as 203.0.113.7 or 2001:db8::1"
		}
		bits := k.v6
		if p.Addr().Is4() {
			bits = 32
		}
		if p.Bits() != bits || p.Addr().Is4In6() {
			return "", "want an address, or a prefix of the length of a bucket: /32 of IPv4, /" + strconv.Itoa(k.v6) + " of IPv6"
		}
		a = p.Addr()
	}
	if a.Zone() != "" {
		return "", "want an address without a zone"
	}
	return string(appendAddr(nil, a, k.v6)), ""
}
