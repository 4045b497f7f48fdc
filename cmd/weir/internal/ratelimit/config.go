package ratelimit

import (
	"crypto/sha256"
	"time"

	"github.com/floodweir/weir"
)

// A Config is the domains of one file or directory. The nil Config has none.
type Config struct {
	domains map[string]*Domain
	order   []*Domain
	files   []string
	sum     [sha256.Size]byte // of what the files say
}

// Equal reports whether two configurations are made of the same text in the same order.
func (c *Config) Equal(o *Config) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.sum == o.sum
}

// Domain is the domain of the given name, or nil.
func (c *Config) Domain(name string) *Domain {
	if c == nil {
		return nil
	}
	return c.domains[name]
}

// Domains are the domains in the order of the files. The caller does not change the
// slice.
func (c *Config) Domains() []*Domain {
	if c == nil {
		return nil
	}
	return c.order
}

// Files are the names of the files that were read.
func (c *Config) Files() []string {
	if c == nil {
		return nil
	}
	return c.files
}

// A Domain is a container of limits.
type Domain struct {
	// Name is what requests call it; not empty.
	Name string

	// File is where it stands; the first file, if it was merged of several.
	File string

	// Descriptors are the descriptors of the first level, in the order of the file.
	Descriptors []*Descriptor

	level level
	depth int // levels below
}

// A Descriptor is one entry of the configuration, with what stands below it.
type Descriptor struct {
	// Key is not empty. Value is "" for any value, and may have '*' for any text.
	Key, Value string

	// Limit is the limit of this descriptor; nil if it has none.
	Limit *Limit

	// Descriptors are those of the next level, in the order of the file.
	Descriptors []*Descriptor

	// DetailedMetric puts the values of all entries into the label of a Match,
	// ValueToMetric that of this one.
	DetailedMetric, ValueToMetric bool

	// ShareThreshold makes all values that match Value one, which has a '*'.
	ShareThreshold bool

	// Metadata goes with every answer that the limit admitted: values are nil, bool,
	// float64, string, []any and map[string]any. It is not changed.
	Metadata map[string]any

	level level
	label string // that of the way to here without values of requests
	place place
}

// A place is where something stands in a file.
type place struct {
	file         string
	line, column int
}

// A Limit is what a descriptor says of how much may go through.
type Limit struct {
	// Limit is the rule. It is the zero Limit if Unlimited, or if RequestsPerUnit is 0,
	// which lets nothing through.
	Limit weir.Limit

	// RequestsPerUnit is the number of hits per Window.
	RequestsPerUnit uint32

	// Window is the period: that of the unit, or another. Zero if Unlimited.
	Window time.Duration

	// Name is what Replaces of other limits call it; "" if it has no name.
	Name string

	// Replaces are names of limits that are not judged in a request that meets this one.
	Replaces []string

	// Unlimited admits everything.
	Unlimited bool

	// Shadow decides and counts, and lets through. Quota denies only where every limit of
	// a request that is a Quota denies.
	Shadow, Quota bool

	// Count says whether hits that are denied count.
	Count Count
}

// Blocks reports whether l lets nothing through.
func (l *Limit) Blocks() bool { return !l.Unlimited && l.RequestsPerUnit == 0 }

// A Count says which hits a limit counts.
type Count string

const (
	// CountAuto is CountAdmitted, until the limit is asked with a hits_addend of 0. Who
	// asks first and charges afterwards means every hit: of one that does not fit, what is
	// left is counted.
	CountAuto Count = ""
	// CountAll counts hits whether they fit or not.
	CountAll Count = "all"
	// CountAdmitted counts what was admitted alone.
	CountAdmitted Count = "admitted"
)
