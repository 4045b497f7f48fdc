package importer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/floodweir/weir/cmd/weir/internal/nginxconf"
)

// exemptions returns the condition for the requests whose key is not empty, for a variable
// that a map sets to the client address or to nothing by a geo block. That is how nginx
// exempts networks from a limit.
func exemptions(block []*nginxconf.Directive, name string) (condition string, ok bool) {
	var source string
	limited := map[string]bool{} // by the value of geo
	for _, d := range block {
		if d.Name == "map" && len(d.Args) == 2 && d.Args[1] == "$"+name {
			source = strings.TrimPrefix(d.Args[0], "$")
			for _, c := range d.Block {
				if len(c.Args) != 1 || !slices.Contains([]string{"", "$binary_remote_addr", "$remote_addr"}, c.Args[0]) || strings.HasPrefix(c.Name, "~") {
					return "", false
				}
				limited[c.Name] = c.Args[0] != ""
			}
		}
	}
	if source == "" {
		return "", false
	}
	isLimited := func(value string) bool {
		if l, ok := limited[value]; ok {
			return l
		}
		return limited["default"]
	}
	for _, d := range block {
		if d.Name == "geo" && len(d.Args) == 1 && d.Args[0] == "$"+source {
			return networks(d.Block, isLimited)
		}
	}
	return "", false
}

// networks returns the condition for the clients that a geo block gives a limit. It supports
// blocks in which all networks differ from the default in the same way.
func networks(block []*nginxconf.Directive, isLimited func(value string) bool) (condition string, ok bool) {
	byDefault := isLimited("")
	var conditions []string
	for _, c := range block {
		if len(c.Args) != 1 {
			return "", false
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
			return "", false
		}
		conditions = append(conditions, fmt.Sprintf("cidr(%s).containsIP(client.ip)", cel(network.Masked().String())))
	}
	switch {
	case conditions == nil:
		return "", false
	case byDefault:
		return not(conditions), true
	}
	return either(conditions), true
}
