package pgstore

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/memstore"
)

// A row is a row of weir_states, and the state in it.
type row struct {
	memstore.ScratchState
	name    string
	last    int64 // the instant of the latest write
	ahead   int64 // see guard
	version int64 // 0: there is no row
	moved   bool  // by guard
}

// A held is a reservation as a row stores it.
type held struct {
	ID       uint64 `json:"id"`
	Limit    string `json:"limit"`
	Place    uint8  `json:"place,omitempty"`
	Settled  bool   `json:"settled,omitempty"`
	N        int64  `json:"n"`
	Actual   int64  `json:"actual,omitempty"`
	At       int64  `json:"at"`
	Deadline int64  `json:"deadline"`
}

// ruleText returns the text of a limit for the column rule: empty if the name of the row has it.
func ruleText(l weir.Limit) string {
	if l.String() == l.Spec().State {
		return ""
	}
	return limitText(l)
}

// limitText returns a limit with the name of its states, if any.
func limitText(l weir.Limit) string {
	if l.Spec().Named {
		return escape(l.String(), 0) + "\n" + escape(l.Name(), 0)
	}
	return escape(l.String(), 0)
}

// A parser parses the texts of limits, and caches at most maxLimits of them.
type parser struct {
	mu    sync.Mutex
	cache map[string]weir.Limit
}

const maxLimits = 4096

func (p *parser) limit(text string) (weir.Limit, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l, ok := p.cache[text]; ok {
		return l, nil
	}
	rule, name, named := strings.Cut(text, "\n")
	l, err := weir.ParseLimit(unescape(rule))
	if err != nil {
		return l, err
	}
	if named {
		l = l.Named(unescape(name))
	}
	if p.cache == nil || len(p.cache) >= maxLimits {
		p.cache = map[string]weir.Limit{}
	}
	p.cache[strings.Clone(text)] = l
	return l, nil
}

// unescape undoes escape.
func unescape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		var c byte
		if text[i] == '%' && i+2 < len(text) {
			if _, err := fmt.Sscanf(text[i+1:i+3], "%02X", &c); err == nil {
				b.WriteByte(c)
				i += 2
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// decode sets the state of r from columns of its row.
func (r *row) decode(p *parser, words, rule, reservations string) (err error) {
	fail := func(err error) error { return fmt.Errorf("row %.60q: %w", r.name, err) }
	if rule != "" {
		if r.Limit, err = p.limit(rule); err != nil {
			return fail(err)
		}
	}
	if r.Words, err = parseNumbers(words); err != nil {
		return fail(err)
	}
	if reservations == "" {
		return nil
	}
	var all []held
	if err := json.Unmarshal([]byte(reservations), &all); err != nil {
		return fail(err)
	}
	for _, h := range all {
		l, err := p.limit(h.Limit)
		if err != nil {
			return fail(err)
		}
		r.Reservations = append(r.Reservations, memstore.ScratchReservation{
			ID: h.ID, Limit: l, Place: algo.Place(h.Place), Settled: h.Settled, N: h.N, Actual: h.Actual, At: h.At, Deadline: h.Deadline,
		})
	}
	return nil
}

// encodeReservations returns the reservations of a state as JSON; empty if there are none.
func encodeReservations(all []memstore.ScratchReservation) string {
	if len(all) == 0 {
		return ""
	}
	list := make([]held, len(all))
	for i, h := range all {
		list[i] = held{ID: h.ID, Limit: limitText(h.Limit), Place: uint8(h.Place), Settled: h.Settled, N: h.N, Actual: h.Actual, At: h.At, Deadline: h.Deadline}
	}
	b, err := json.Marshal(list)
	if err != nil {
		panic(err) // numbers and texts always marshal
	}
	return string(b)
}

// maxAhead is the longest span, in µs, of a clock that was set back that a row records: 366
// days.
const maxAhead = 366 * 24 * 3600 * 1_000_000

// guard handles a clock that is behind the last write of a state, or was once, and returns the
// instant of the decision. If the clock is behind by no more than the refill time of the limit,
// the state stays at its instant. If it is behind by more, the state moves back with the clock,
// and ahead becomes the span by which the clock had advanced further. When the clock advances
// by that again, the state moves forward with it: tokens for this span were given before. Only
// the first step forward by a part of it after each step back gives no tokens; ahead is then
// negative.
func (r *row) guard(clock int64) (now int64) {
	if r.version == 0 || len(r.Words)+len(r.Reservations) == 0 {
		return clock
	}
	refill := algo.Refill(r.Limit.Spec().Rule)
	step, move, ahead := clock-r.last, int64(0), max(r.ahead, -r.ahead)
	switch {
	case -step > refill:
		move = -step
	case ahead > 0 && step >= ahead:
		move = -ahead
	case r.ahead > 0 && step > refill:
		move = -step
	}
	if move != 0 {
		move = r.shift(move)
	}
	if move != 0 {
		r.last, r.moved = r.last-move, true
		r.ahead = min(ahead+move, maxAhead)
		if move < 0 {
			r.ahead = -r.ahead
		}
	}
	return max(clock, r.last)
}

// shift moves the state back by d µs, or forward if d is negative. It returns by how much it
// moved: some limits have coarser instants.
func (r *row) shift(d int64) int64 {
	rule := r.Limit.Spec().Rule
	if until := rule.Until(r.Words); until > 0 {
		r.Words = slices.Clone(r.Words)
		rule.Shift(r.Words, d)
		if until > d {
			d = until - rule.Until(r.Words)
		}
	}
	for i := range r.Reservations {
		h := &r.Reservations[i]
		h.At, h.Deadline = max(1, h.At-d), max(1, h.Deadline-d)
	}
	return d
}

// changed reports whether after differs from the state of r.
func (r *row) changed(after *memstore.ScratchState) bool {
	return r.moved || !slices.Equal(r.Words, after.Words) || len(r.Words) > 0 && !r.Limit.Equal(after.Limit) ||
		!slices.Equal(r.Reservations, after.Reservations)
}

// expires returns the instant from which a row with the state equals none; 0 if it is so already.
func expires(st *memstore.ScratchState, ahead int64) (us int64) {
	if len(st.Words) > 0 {
		us = st.Limit.Spec().Rule.Until(st.Words)
	}
	for _, h := range st.Reservations {
		us = max(us, h.Deadline)
	}
	if us > 0 {
		us = min(us+max(ahead, -ahead), math.MaxInt64-1)
	}
	return us
}
