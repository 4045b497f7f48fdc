package importer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/floodweir/weir/cmd/weir/internal/nginxconf"
)

// exemptions sets the requests whose key is not empty, for a variable that a map sets to the
// client address or to nothing by a geo block. That is how nginx exempts networks from a limit.
func (d *draft) exemptions(block []*nginxconf.Directive, name string) (ok bool) {
	var source string
	limited := map[string]bool{} // by the value of geo
	for _, m := range block {
		if m.Name == "map" && len(m.Args) == 2 && m.Args[1] == "$"+name {
			source = strings.TrimPrefix(m.Args[0], "$")
			for _, c := range m.Block {
				if len(c.Args) != 1 || !slices.Contains([]string{"", "$binary_remote_addr", "$remote_addr"}, c.Args[0]) || strings.HasPrefix(c.Name, "~") {
					return false
				}
				limited[c.Name] = c.Args[0] != ""
			}
		}
	}
	if source == "" {
		return false
	}
	isLimited := func(value string) bool {
		if l, ok := limited[value]; ok {
			return l
		}
		return limited["default"]
	}
	for _, g := range block {
		if g.Name == "geo" && len(g.Args) == 1 && g.Args[0] == "$"+source {
			return d.networks(g.Block, isLimited)
		}
	}
	return false
}

// networks sets the clients that a geo block gives a limit. It supports blocks in which all
// networks differ from the default in the same way.
func (d *draft) networks(block []*nginxconf.Directive, isLimited func(value string) bool) (ok bool) {
	byDefault := isLimited("")
	var all, conditions []string
	for _, c := range block {
		if len(c.Args) != 1 {
			return false
		}
		if c.Name == "default" {
			byDefault = isLimited(c.Args[0])
		}
	}
	for _, c := range block {
		if c.Name == "default" {
			continue
		}
		network, err := netip.ParsePrefix(c.Name)
		if addr, addrErr := netip.ParseAddr(c.Name); addrErr == nil && addr.Zone() == "" {
			network, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil || isLimited(c.Args[0]) == byDefault {
			return false
		}
		if a := network.Addr(); a.Is4In6() && network.Bits() >= 96 {
			network = netip.PrefixFrom(a.Unmap(), network.Bits()-96)
		}
		text := network.Masked().String()
		all, conditions = append(all, text), append(conditions, fmt.Sprintf("cidr(%s).containsIP(client.ip)", cel(text)))
	}
	switch {
	case all == nil:
		return false
	case byDefault:
		d.except = append(d.except, exception{"ips", all})
	default:
		d.where = append(d.where, either(conditions))
	}
	return true
}
