package policy

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/floodweir/weir"
)

// An Outline is what a policy compares requests with, for a program that decides
// about them in another language. Beside it there is the Config of the policy: an
// Outline has what New makes of that. The caller does not change what it holds.
type Outline struct {
	Methods []string // in upper case, with HEAD where GET is; all if empty
	Hosts   []HostOutline
	Paths   []PathOutline
	Headers []HeaderOutline // in the order in which they are compared
	Key     []PartOutline

	// Overrides are the limits of keys that an override names exactly, by the text of
	// the key (see Ask.Key).
	Overrides map[string][]weir.Limit

	// Wildcards are the other overrides; the first that fits has its say.
	Wildcards []WildcardOutline
}

// A HostOutline is a name in lower case or, if Below, all names below it.
type HostOutline struct {
	Name  string
	Below bool
}

// A PathOutline is a pattern of paths.
type PathOutline struct {
	Pattern  string   // as it was written
	Segments []string // in lower case; "" is any one segment
	Rest     bool     // whether anything may follow
}

// A HeaderOutline wants one of Values; "*" is any but an empty one.
type HeaderOutline struct {
	Name   string // canonical
	Values []string
}

// A PartOutline is a part of the key.
type PartOutline struct {
	Source  Source
	Name    string   // as in KeyPart; of a header canonical, of a claim without its header
	Bits    int      // of ClientIP: how much is kept of an IPv6 address
	Header  string   // of a Claim, canonical
	Bearer  bool     // of a Claim: a scheme stands before the token
	Methods []string // of Method: those that are told apart, in upper case; all others are "*"
	Of      Text     // of an Expression
}

// A WildcardOutline is an override that fits more keys than one: it has a Fit for
// each part of the key.
type WildcardOutline struct {
	Fit    []FitOutline
	Limits []weir.Limit
}

// A FitOutline is any value and none, the addresses of a network if that is valid, or
// a text with a gap between each two of Text. One with gaps fits a value of at most 8
// KiB that is not empty.
type FitOutline struct {
	Any     bool
	Network netip.Prefix
	Text    []string
}

// Outline is the outline of p.
func (p *Policy) Outline() Outline {
	o := Outline{Overrides: maps.Clone(p.overrides)}
	for _, m := range p.methods {
		o.Methods = append(o.Methods, m)
		if m == "GET" {
			o.Methods = append(o.Methods, "HEAD")
		}
	}
	o.Methods = sortedOnce(o.Methods)
	for _, h := range p.hosts {
		o.Hosts = append(o.Hosts, HostOutline{h.Name, h.Below})
	}
	for _, r := range p.routes {
		segments, rest := r.Segments()
		o.Paths = append(o.Paths, PathOutline{r.Pattern, segments, rest})
	}
	for _, h := range p.headers {
		o.Headers = append(o.Headers, HeaderOutline{h.name, h.values})
	}
	for i := range p.parts {
		o.Key = append(o.Key, p.parts[i].outline(p))
	}
	for _, w := range p.wildcards {
		x := WildcardOutline{Limits: w.limits}
		for _, f := range w.fit {
			x.Fit = append(x.Fit, FitOutline{f.any, f.network, f.text})
		}
		o.Wildcards = append(o.Wildcards, x)
	}
	return o
}

func (k *part) outline(p *Policy) PartOutline {
	o := PartOutline{Source: k.Source, Name: k.Name, Of: k.Of}
	switch k.Source {
	case ClientIP:
		o.Name, o.Bits = "", k.v6
	case Claim:
		o.Name, o.Header, o.Bearer = k.claim.name, k.claim.header, k.claim.bearer
	case Method:
		o.Methods = sortedOnce(append(strings.Fields(standardMethods), p.methods...))
	}
	return o
}

func sortedOnce(s []string) []string {
	slices.Sort(s)
	return slices.Compact(s)
}
