package spelling

import (
	"net/netip"
	"strings"
)

// HostName is a host as sent without port, trailing dot and case. An address has one
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
	Below bool // the names below it, not itself
}

// ParseHost reads a pattern, or says what was expected instead.
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
	return h, ""
}

// Matches reports whether h stands for a host as HostName gives it.
func (h *Host) Matches(host string) bool {
	if !h.Below {
		return host == h.Name
	}
	name, ok := strings.CutSuffix(host, h.Name)
	return ok && len(name) > 1 && name[len(name)-1] == '.'
}
