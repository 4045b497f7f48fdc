// Package outline describes compiled policies and limits to cmd/weir/internal/edge, which
// writes them out for nginx. policy.Policy.Outline and redisstore.Outline return its types.
package outline

import "net/netip"

// A Policy describes what a policy compares requests with, as compiled from its
// policy.Config. Lists that are empty match every request.
type Policy struct {
	Methods []string // in upper case, with HEAD where GET is
	Hosts   []Host
	Paths   []Path
	Headers []Header // in the order in which they are compared
	Key     []Part   // one for each element of Config.Key

	// Exact has an index of Config.Overrides for each key that an override names.
	Exact map[string]int

	// Wildcards lists the other overrides; the first that matches applies.
	Wildcards []Wildcard
}

// A Host is a name in lower case or, if Below is set, matches all names below it.
type Host struct {
	Name  string
	Below bool
}

// A Path is a compiled path pattern.
type Path struct {
	Pattern  string   // as configured
	Segments []string // in lower case; "" matches any one segment
	Rest     bool     // further segments may follow
}

// A Header has the accepted values of a header; "*" matches any value but an empty one.
type Header struct {
	Name   string // canonical
	Values []string
}

// A Part describes one part of the key.
type Part struct {
	Name    string   // as in policy.KeyPart; of a header canonical, of a claim without its header
	Bits    int      // ClientIP: the bits of an IPv6 address that are kept
	Header  string   // Claim: the header of the token, canonical
	Bearer  bool     // Claim: a scheme precedes the token
	Methods []string // Method: the methods that have keys of their own, in upper case; all others are "*"
}

// A Wildcard is an override that matches several keys.
type Wildcard struct {
	Override int   // index of Config.Overrides
	Fit      []Fit // one for each part of the key
}

// A Fit matches any value and none, or the addresses of Network if it is valid, or a text
// with a gap between each two elements of Text. A text with gaps matches values of 1 byte
// to 8 KiB.
type Fit struct {
	Any     bool
	Network netip.Prefix
	Text    []string
}

// A Rule describes a limit as the script of package redisstore takes it.
type Rule struct {
	// Algorithm is a name such as token_bucket or, if one algorithm wraps another,
	// primed/token_bucket.
	Algorithm string

	// Params are the limit's numbers and, last, its refill time. For a calendar they contain
	// the bounds of windows around the given instant.
	Params []int64

	// Suffix ends the name of a state, which is KeyPrefix{KEY}:SUFFIX. Limits with the same
	// weir.Limit.State have the same Suffix.
	Suffix string

	// Stored is the rule as the script stores it with a named state; empty otherwise.
	Stored string
}

// version identifies the names of keys, their values and the script. A store never reads
// the keys of another version.
const version = "1"

// KeyPrefix returns the beginning of every key of a store with a Config.Prefix.
func KeyPrefix(prefix string) string { return prefix + ":" + version + ":" }
