package share

import (
	"slices"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/share/internal/parts"
)

// open makes the remainder of r ready for decisions at the ledger's time at, and returns the
// instant of the decisions and the limit in force. A row that does not exist becomes one of d. If
// the row is of another limit, d replaces that if replace is set.
func (r *row) open(d *parts.Limit, at int64, replace bool) (now int64, in *parts.Limit, err error) {
	if r.limit == "" {
		r.limit, r.at = d.Text, at
		r.rest.Become(d, d.Whole, at)
		return at, d, nil
	}
	in = d
	if r.limit != d.Text {
		l, err := weir.ParseLimit(r.limit)
		if err != nil {
			return 0, nil, errRow
		}
		if in, err = parts.Divide(l); err != nil {
			return 0, nil, errRow
		}
	}
	b := &r.rest
	if !b.Open(in) {
		return 0, nil, errRow
	}
	now = at
	if back := r.at - at; back > 0 {
		now = r.at
		if b.Rule != nil && back > algo.Refill(b.Rule) { // the clock was set back by more than time can explain
			b.Rule.Shift(b.Words, back)
			now = at
		}
	}
	if in != d && replace {
		r.replace(in, d, now)
		in = d
	}
	return now, in, nil
}

// reopen ends the time in which a row admits nothing, if no share of a former limit is left. What
// those may have admitted counts as the whole limit.
func (r *row) reopen(in *parts.Limit, now int64) {
	if r.closed && !slices.ContainsFunc(r.holders, func(h holder) bool { return h.old }) {
		r.closed = false
		r.rest.Put(in, in.Whole, 0, now)
	}
}

// replace puts the limit d in force in place of in. The remainder keeps what was used. Shares
// of the former limit last until their leases end, and the remainder excludes what they may
// admit. If they cannot be expressed under d, the remainder admits nothing until then.
func (r *row) replace(in, d *parts.Limit, now int64) {
	comparable := in.Comparable(d)
	rest := d.Whole
	for i := range r.holders {
		h := &r.holders[i]
		h.old = true
		if d.Bucket {
			h.part.Rate = parts.CeilScale(h.part.Rate, d.Span, in.Span)
		}
		r.closed = r.closed || !comparable && h.part != (parts.Part{})
		rest = rest.Minus(h.part)
	}
	b := &r.rest
	if r.closed {
		*b = parts.Bank{}
		for i := range r.holders {
			r.holders[i].part = parts.Part{}
		}
		return
	}
	b.Become(d, rest, now)
}

// reclaim takes back the shares of holders that have not written for their leases, except for that
// of own, and reports whether there were any. What they held counts as used. Seen is what the
// process has seen of the row. It keeps those whose shares are taken back, because the row may not be written.
func (r *row) reclaim(in *parts.Limit, own uint64, seen *[]watched, sent, received moment, now int64) (any bool) {
	var still []watched
	r.holders = slices.DeleteFunc(r.holders, func(h holder) bool {
		if h.id == own {
			return false
		}
		w := watched{h.id, h.seq, received.local}
		i := slices.IndexFunc(*seen, func(v watched) bool { return v.id == h.id && v.seq == h.seq })
		if i >= 0 {
			w.since = (*seen)[i].since
		}
		still = append(still, w)
		if sent.local-w.since < h.lease {
			return false
		}
		r.rest.Put(in, h.part, 0, now)
		any = true
		return true
	})
	*seen = still
	return any
}

// keepMore is added to the time for which a row with holders is kept, in µs. The clock of a ledger
// may jump forward by as much before it deletes the row too early.
const keepMore = 3600 * 1_000_000

// keep returns the µs for which the row has to be kept.
func (r *row) keep(now int64) int64 {
	us := int64(0)
	if r.rest.Rule != nil {
		us = max(0, r.rest.Rule.Until(r.rest.Words)-now)
	}
	if len(r.holders) > 0 {
		lease := int64(0)
		for i := range r.holders {
			lease = max(lease, r.holders[i].lease)
		}
		us += 2*lease + keepMore
	}
	return us
}
