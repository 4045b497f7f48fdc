package policy

import (
	"net/netip"
	"strings"
)

// hostName is a host as sent without port, trailing dot and case. An address has one
// spelling.
func hostName(s string) string {
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

// A hostPattern is a compiled element of Match.Hosts.
type hostPattern struct {
	name  string
	below bool // the names below it, not itself
}

// parseHost reads an element of Match.Hosts, or says what was expected instead.
func parseHost(text string) (hostPattern, string) {
	const want = "want a host name such as example.com, *.example.com for all below it, or an address, without a port"
	name, below := strings.CutPrefix(text, "*.")
	bare := name
	if strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]") {
		bare = name[1 : len(name)-1]
	}
	if a, err := netip.ParseAddr(bare); err == nil && !below && a.Zone() == "" {
		return hostPattern{name: a.Unmap().String()}, ""
	}
	h := hostPattern{hostName(name), below}
	if len(text) > maxText || h.name == "" || h.name[0] == '.' || strings.Contains(h.name, "..") ||
		strings.ContainsAny(name, ":[]*/@?%# ") || hasControl(name) {
		return h, want
	}
	if _, err := netip.ParseAddr(h.name); err == nil {
		return h, want
	}
	return h, ""
}

// matches reports whether h stands for a host as hostName gives it.
func (h *hostPattern) matches(host string) bool {
	if !h.below {
		return host == h.name
	}
	name, ok := strings.CutSuffix(host, h.name)
	return ok && len(name) > 1 && name[len(name)-1] == '.'
}
