package weirfile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/share/regions"
	"github.com/floodweir/weir/weirfile/internal/grammar"
	"github.com/floodweir/weir/weirfile/strict"
)

// Regions lists regions that divide all limits, for package share/regions.
type Regions struct {
	// Members has at least one region. Their names differ, and their parts are at most 100 together.
	Members []Region

	// Here is the name of the region of this process; "" if omitted.
	Here string

	// Global is the URL of the server by which the regions share the rest; "" if there is no rest to
	// share. It may contain a password.
	Global string

	// Lease is the time for which a process may use its part of the rest without Global; zero if
	// omitted.
	Lease time.Duration
}

// A Region is a region in a File.
type Region struct {
	Name  string
	Part  int    // in percent; 0 for auto
	Store string // as File.Store; "" if omitted
}

// Rest returns the part that the regions share, in percent; 0 without Global.
func (r *Regions) Rest() int {
	if r.Global == "" {
		return 0
	}
	return 100 - r.sum()
}

func (r *Regions) sum() (n int) {
	for _, m := range r.Members {
		n += m.Part
	}
	return n
}

// Names returns the names of the regions.
func (r *Regions) Names() (names []string) {
	for _, m := range r.Members {
		names = append(names, m.Name)
	}
	return names
}

// auto reports whether a region has no part of its own.
func (r *Regions) auto() bool {
	return slices.ContainsFunc(r.Members, func(one Region) bool { return one.Part == 0 })
}

// Region returns the region with a name. It is false if there is none.
func (r *Regions) Region(name string) (Region, bool) {
	i := slices.IndexFunc(r.Members, func(m Region) bool { return m.Name == name })
	if i < 0 {
		return Region{}, false
	}
	return r.Members[i], true
}

// readRegions reads regions. After a fault it returns nil.
func (d *decoder) readRegions(p place) *Regions {
	if !p.there() {
		return nil
	}
	before := len(d.Faults())
	m, r := d.mapping(p), new(Regions)
	r.Here, _ = d.text(m.at("here"))
	r.Global = d.store(m.at("global"))
	r.Lease = d.duration(m.at("lease"))
	stores := map[string]bool{}
	for _, e := range d.elements(m.at("members")) {
		one := d.region(e)
		if _, twice := r.Region(one.Name); twice {
			d.failIn(e, strict.Quoted(one.Name), "want every region once")
		}
		if url := one.Store; url != "" && url != "memory" {
			if stores[url] {
				d.Fail(e.node, e.field+".store", "", "want a store of its own: another region has it")
			}
			stores[url] = true
		}
		r.Members = append(r.Members, one)
	}
	if len(d.Faults()) > before {
		return nil
	}
	d.checkRegions(m, r)
	if len(d.Faults()) > before {
		return nil
	}
	return r
}

func (d *decoder) region(p place) (r Region) {
	m := d.mapping(p)
	r.Name, _ = d.text(m.at("name"))
	r.Store = d.store(m.at("store"))
	part := m.at("part")
	if part.node.Kind() == strict.Integer {
		part.shape = part.shape.As(grammar.Integer)
		r.Part = int(d.integer(part))
		return r
	}
	part.shape = part.shape.As(grammar.Word)
	d.word(part)
	return r
}

// checkRegions checks the fields together.
func (d *decoder) checkRegions(m mapping, r *Regions) {
	members, global := m.at("members"), m.at("global")
	auto, rest := r.auto(), 100-r.sum()
	switch {
	case rest < 0:
		d.failIn(members, fmt.Sprintf("parts of %d percent", r.sum()), "want parts of at most 100 percent together")
	case r.Global == "memory":
		d.failIn(global, "memory", "want the URL of a server that all regions reach")
	case auto && rest == 0:
		d.failIn(members, "parts of 100 percent", "want parts that leave a rest for part: auto")
	case auto && !global.there():
		d.failIn(members, "part: auto", "want %s too: by it the regions share the rest", global.field)
	case global.there() && rest == 0:
		d.failIn(global, "", "want parts that leave a rest to share, or no global")
	case rest > 0 && !global.there():
		d.note(members, fmt.Sprintf("%d percent of each limit are unused: raise the parts, or add global to share them", rest))
	}
	if here := m.at("here"); here.there() && r.Here != "" {
		if _, ok := r.Region(r.Here); !ok {
			d.failIn(here, strict.Quoted(r.Here), "want one of %s", strings.Join(r.Names(), ", "))
		}
	}
}

// policyRegions reads regions of a policy, after all of its other fields.
func policyRegions(r *policyReader, m mapping, c *policy.Config) {
	word, _ := r.word(m.at("regions"))
	if c.EachRegion = word == "each"; c.EachRegion || r.regions == nil {
		return
	}
	const each = "want a limit that regions can divide, or regions: each"
	check := func(field string, limits []weir.Limit) {
		for i, l := range limits {
			if l.IsZero() {
				continue
			}
			if err := r.regions.divide(l); err != nil {
				at := r.places[strict.Index(field, i)]
				if !at.There() {
					at = m.node
				}
				_, reason, _ := strings.Cut(err.Error(), "invalid: ")
				reason = strings.TrimPrefix(reason, "cannot be divided among regions: ")
				r.Fail(at, r.at(strict.Index(field, i)), strict.Quoted(l.Brief()), each+": %s", reason)
			}
		}
	}
	check("limits", c.Limits)
	check("candidate", c.Candidate)
	for i, o := range c.Overrides {
		check(strict.Index("overrides", i)+".limits", o.Limits)
	}
	switch {
	case len(c.Tenants) > 0:
		r.failIn(m.at("tenants"), "", "want regions: each: tenants share a state")
	case r.regions.auto() && len(c.Limits) > 0 && !c.Divides():
		r.failIn(m.at("name"), strict.Quoted(c.Name), "want regions: each, or a part for every region: reservations are those of a part")
	}
}

// divide returns why a region could not decide by its part of l, or nil.
func (r *Regions) divide(l weir.Limit) error {
	for _, m := range r.Members {
		percent := m.Part
		if percent == 0 {
			percent = r.Rest()
		}
		if _, err := regions.Part(l, percent); err != nil {
			return err
		}
		if m.Part == 0 && l.IsConcurrency() {
			return fmt.Errorf("regions: %w: slots are of the part of a region, and %s has none", weir.ErrInvalid, m.Name)
		}
	}
	return nil
}
