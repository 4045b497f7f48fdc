package ratelimit

import (
	"crypto/sha256"
	"time"

	"github.com/floodweir/weir"
)

// A Config holds the domains of one file or directory. The nil Config has none.
type Config struct {
	domains map[string]*Domain
	order   []*Domain
	files   []string
	sum     [sha256.Size]byte // of the content of the files
}

// Equal reports whether two configurations were read from the same text in the same
// order.
func (c *Config) Equal(o *Config) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.sum == o.sum
}

// Domain returns the domain of a name, or nil.
func (c *Config) Domain(name string) *Domain {
	if c == nil {
		return nil
	}
	return c.domains[name]
}

// Domains returns the domains in the order of the files. The caller must not change the
// slice.
func (c *Config) Domains() []*Domain {
	if c == nil {
		return nil
	}
	return c.order
}

// Files returns the names of the files that were read.
func (c *Config) Files() []string {
	if c == nil {
		return nil
	}
	return c.files
}

// A Domain contains limits.
type Domain struct {
	// Name is the name in requests. It is not empty.
	Name string

	// File is the file of the domain, or the first of several that were merged.
	File string

	// Descriptors lists the descriptors of the first level, in the order of the file.
	Descriptors []*Descriptor

	level level
	depth int // the number of levels
}

// A Descriptor is one entry of the configuration, with the descriptors below it.
type Descriptor struct {
	// Key is not empty. A Value of "" matches any value, and a '*' in it any text.
	Key, Value string

	// Limit is the limit of this descriptor; nil if it has none.
	Limit *Limit

	// Descriptors lists those of the next level, in the order of the file.
	Descriptors []*Descriptor

	// DetailedMetric adds the values of all entries to the label of a Match,
	// ValueToMetric the value of this one.
	DetailedMetric, ValueToMetric bool

	// ShareThreshold gives all values that match Value, which has a '*', one state.
	ShareThreshold bool

	// Metadata is returned with every request that the limit admitted. Values are nil,
	// bool, float64, string, []any and map[string]any. It must not be changed.
	Metadata map[string]any

	level level
	label string // the names of this descriptor and those above it, joined by dots
	place place
}

// A place is a position in a file.
type place struct {
	file         string
	line, column int
}

// A Limit is the rate_limit of a descriptor.
type Limit struct {
	// Limit is the rule. It is the zero Limit if Unlimited, or if RequestsPerUnit is 0,
	// which denies every request.
	Limit weir.Limit

	// RequestsPerUnit is the number of hits per Window.
	RequestsPerUnit uint32

	// Window is the period, from unit or window; zero if Unlimited.
	Window time.Duration

	// Name is the name by which other limits replace this one; "" if none.
	Name string

	// Replaces lists names of limits that do not apply to a request with this limit.
	Replaces []string

	// Unlimited admits every request.
	Unlimited bool

	// Shadow decides and counts, but admits every request. Quota denies only if every Quota
	// limit of the request denies.
	Shadow, Quota bool

	// Count selects whether denied hits count.
	Count Count
}

// Blocks reports whether l denies every request.
func (l *Limit) Blocks() bool { return !l.Unlimited && l.RequestsPerUnit == 0 }

// A Count selects the hits that a limit counts.
type Count string

const (
	// CountAuto is CountAdmitted until the limit receives a hits_addend of 0. Such a client
	// asks first and charges afterwards, so a denied charge then consumes what is left.
	CountAuto Count = ""
	// CountAll counts admitted and denied hits.
	CountAll Count = "all"
	// CountAdmitted counts only admitted hits.
	CountAdmitted Count = "admitted"
)
