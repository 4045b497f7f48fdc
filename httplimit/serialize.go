package httplimit

import (
	"math/bits"
	"strconv"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/plainhttp"
)

// This file contains the wire forms. The lists of drafts 07 and 08 are structured fields
// (RFC 9651), whose integers have at most 15 digits; the largest quota, 2^40, has 13.

// maxFields is the largest number of fields: those of Legacy and Draft06.
const maxFields = 7

// A writer lists fields with one allocation for all values.
type writer struct {
	text  []byte
	names [maxFields]string
	ends  [maxFields]int
	n     int
}

// field ends a field; text is w.text with the value appended. An empty value sets no field.
func (w *writer) field(name string, text []byte) {
	w.text = text
	if w.n > 0 && len(text) == w.ends[w.n-1] || len(text) == 0 {
		return
	}
	w.names[w.n], w.ends[w.n] = name, len(text)
	w.n++
}

func (w *writer) integer(name string, n int64) { w.field(name, appendUint(w.text, n)) }

func (w *writer) appendTo(fields []plainhttp.Pair) []plainhttp.Pair {
	all, from := string(w.text), 0
	for i := range w.n {
		fields = append(fields, plainhttp.Pair{Name: w.names[i], Value: all[from:w.ends[i]]})
		from = w.ends[i]
	}
	return fields
}

// appendUint appends n, or 0 if it is negative.
func appendUint(b []byte, n int64) []byte { return strconv.AppendInt(b, max(0, n), 10) }

// appendPolicies appends RateLimit-Policy of draft 08: "name";q=20;w=2, …
func appendPolicies(b []byte, items []Item) []byte {
	for i, it := range items {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = appendName(b, it.Name)
		b = append(b, ";q="...)
		b = appendUint(b, it.Decision.Limit.Capacity())
		if it.Decision.Limit.IsConcurrency() {
			b = append(b, `;qu="concurrent-requests"`...)
		} else if it.Unit != "" {
			b = appendName(append(b, ";qu="...), it.Unit)
		}
		if w := Window(it.Decision.Limit); w > 0 {
			b = append(b, ";w="...)
			b = appendUint(b, w)
		}
	}
	return b
}

// appendLimits appends RateLimit of draft 08: "name";r=7;t=2, … In a denial, items that admit are
// left out.
func appendLimits(b []byte, items []Item, denied bool) []byte {
	first := true
	for _, it := range items {
		if denied && it.Decision.OK {
			continue
		}
		if !first {
			b = append(b, ", "...)
		}
		first = false
		b = appendName(b, it.Name)
		b = append(b, ";r="...)
		b = appendUint(b, it.Decision.Remaining)
		b = append(b, ";t="...)
		b = appendUint(b, resetSeconds(it.Decision))
	}
	return b
}

// appendWindows appends the policies of drafts 00 to 07: 20;w=2, … They require a window, so limits
// without one are left out. If more is set, it continues a list.
func appendWindows(b []byte, items []Item, more bool) []byte {
	for _, it := range items {
		w := Window(it.Decision.Limit)
		if w == 0 {
			continue
		}
		if more {
			b = append(b, ", "...)
		}
		more = true
		b = appendUint(b, it.Decision.Limit.Capacity())
		b = append(b, ";w="...)
		b = appendUint(b, w)
	}
	return b
}

// appendDictionary appends RateLimit of draft 07.
func appendDictionary(b []byte, limit, remaining, reset int64) []byte {
	b = append(b, "limit="...)
	b = appendUint(b, limit)
	b = append(b, ", remaining="...)
	b = appendUint(b, remaining)
	b = append(b, ", reset="...)
	return appendUint(b, reset)
}

// appendName appends a string of RFC 9651. Bytes that such a string cannot contain become '?'.
func appendName(b []byte, name string) []byte {
	b = append(b, '"')
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			c = '?'
		}
		b = append(b, c)
	}
	return append(b, '"')
}

// resetSeconds returns the reset of a decision: see Fields.
func resetSeconds(d weir.Decision) int64 {
	if d.OK || d.RetryAfter == weir.Never {
		return ceilSeconds(d.ResetAfter)
	}
	return ceilSeconds(d.RetryAfter)
}

func ceilSeconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

// Window returns the window of a limit in the fields: the whole seconds in which its capacity is
// refilled, or 0 if that is not a whole number.
func Window(l weir.Limit) int64 {
	if w, ok := l.Config().(weir.FixedWindow); ok && w.Zone == time.UTC {
		switch w.Calendar {
		case "day":
			return 24 * 60 * 60
		case "week":
			return 7 * 24 * 60 * 60
		}
	}
	count, period := l.Count(), l.Period()
	if l.IsConcurrency() || count <= 0 || period <= 0 {
		return 0
	}
	// capacity × period ÷ count, in ns; neither factor is negative.
	hi, lo := bits.Mul64(uint64(l.Capacity()), uint64(period))
	if hi >= uint64(count) {
		return 0 // more than 64 bits of nanoseconds
	}
	ns, rest := bits.Div64(hi, lo, uint64(count))
	if rest != 0 || ns%uint64(time.Second) != 0 {
		return 0
	}
	return int64(ns / uint64(time.Second))
}
