package spelling

import (
	"net/netip"
	"strings"
	"unicode/utf8"
)

// HostName returns a host as sent without port, trailing dot and case. An address has one
// spelling.
func HostName(s string) string {
	if rest, ok := strings.CutPrefix(s, "["); ok {
		s, _, _ = strings.Cut(rest, "]")
	} else if i := strings.IndexByte(s, ':'); i >= 0 && strings.IndexByte(s[i+1:], ':') < 0 {
		s = s[:i]
	}
	s = strings.ToLower(strings.TrimRight(s, "."))
	if strings.IndexByte(s, ':') >= 0 { // IPv4 has one spelling
		if a, err := netip.ParseAddr(s); err == nil {
			return a.Unmap().String()
		}
	}
	return s
}

// A Host is a compiled pattern of hosts.
type Host struct {
	Name  string
	Below bool // matches the names below Name only
}

// ParseHost parses a pattern, or returns the accepted values.
func ParseHost(text string) (Host, string) {
	const want = "want a host name such as example.com, *.example.com for all below it, or an address, without a port"
	name, below := strings.CutPrefix(text, "*.")
	bare := name
	if strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]") {
		bare = name[1 : len(name)-1]
	}
	if a, err := netip.ParseAddr(bare); err == nil && !below && a.Zone() == "" {
		return Host{Name: a.Unmap().String()}, ""
	}
	h := Host{HostName(name), below}
	if len(text) > MaxText || h.Name == "" || h.Name[0] == '.' || strings.Contains(h.Name, "..") ||
		strings.ContainsAny(name, ":[]*/@?%# ") || HasControl(name) {
		return h, want
	}
	if _, err := netip.ParseAddr(h.Name); err == nil {
		return h, want
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return h, "want the name as requests have it, in ASCII (Punycode), such as xn--mnchen-3ya.de for münchen.de"
	}
	return h, ""
}

// Matches reports whether h matches a host that HostName returned.
func (h *Host) Matches(host string) bool {
	if !h.Below {
		return host == h.Name
	}
	name, ok := strings.CutSuffix(host, h.Name)
	return ok && len(name) > 1 && name[len(name)-1] == '.'
}

// Covers reports whether h matches every host that o matches.
func (h *Host) Covers(o *Host) bool {
	if h.Name == o.Name {
		return h.Below == o.Below
	}
	return h.Matches(o.Name)
}

// AppendAddr appends the bucket of an address: an IPv4 address, also in its IPv6 form, or the
// network of an IPv6 address. It appends nothing for the zero Addr.
func AppendAddr(b []byte, a netip.Addr, v6 int) []byte {
	a = a.Unmap().WithZone("")
	if !a.IsValid() || a.Is4() || v6 == 128 {
		return a.AppendTo(b)
	}
	p, _ := a.Prefix(v6) // v6 is from 1 to 128
	return p.AppendTo(b)
}
