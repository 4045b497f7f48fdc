package weirfile

import (
	"slices"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/share"
	"github.com/floodweir/weir/weirfile/internal/grammar"
	"github.com/floodweir/weir/weirfile/strict"
)

// readShares reads shares.
func (d *decoder) readShares(p place) (s policy.Shares) {
	if !p.there() {
		return s
	}
	if p.node.Kind() != strict.Map {
		p.shape = p.shape.As(grammar.Word)
		word, _ := d.word(p)
		s.Auto = word == "auto"
		return s
	}
	p.shape = p.shape.As(grammar.Map)
	m := d.mapping(p)
	s.Auto = true
	s.Lease, s.Largest = d.duration(m.at("lease")), int(d.integer(m.at("largest")))
	return s
}

// policyShares reads the shares of a policy, after all of its other fields. With the default of the
// file, a policy whose limits cannot be divided stays strict.
func policyShares(r *policyReader, m mapping, c *policy.Config) {
	p := m.at("shares")
	if !p.there() {
		if !m.at("budget").there() && c.Divides() && !slices.ContainsFunc(c.Limits, func(l weir.Limit) bool { return share.Supports(l) != nil }) {
			c.Shares = r.shares
		}
		return
	}
	c.Shares = r.readShares(p)
	if !c.Shares.Auto || !c.Divides() { // package policy reports why it does not
		return
	}
	for i, l := range c.Limits {
		if err := share.Supports(l); err != nil && !l.IsZero() {
			_, reason, _ := strings.Cut(err.Error(), "cannot be divided: ")
			at := r.places[strict.Index("limits", i)]
			if !at.There() {
				at = p.node
			}
			r.Fail(at, r.at(strict.Index("limits", i)), strict.Quoted(l.Brief()), "want a limit that can be divided, or shares: off: %s", reason)
		}
	}
}
