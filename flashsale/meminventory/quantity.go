package meminventory

import "github.com/floodweir/weir/flashsale/sale"

// quantity returns the number of units of a request.
func quantity(n int) int64 { return int64(max(1, n)) }

// maxUnits returns how many units the user of a request may hold. max is its MaxUnits.
func (s *state) maxUnits(max int) int64 {
	if max > 0 {
		return int64(min(max, s.perUser))
	}
	return int64(s.perUser)
}

// atLimit reports whether p, which may be nil, cannot reserve n more units. max is the MaxUnits of the request.
func (s *state) atLimit(p *userState, max, n int) bool {
	return p.units()+quantity(n) > s.maxUnits(max) || p != nil && p.unpaid >= sale.MaxUnpaid
}

// units returns how many units p, which may be nil, holds.
func (p *userState) units() int64 {
	n := int64(0)
	if p != nil {
		for _, h := range p.reserved {
			n += h.Units()
		}
	}
	return n
}
