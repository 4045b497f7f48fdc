package httplimit

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/plainhttp"
)

// Fields are the forms of response fields that report the remaining quota, as a set of bits.
//
// The quota of a limit is its capacity. Its window is the time in which that much is refilled:
// "10/s burst 20" is 20 in 2 seconds. So the remaining quota never exceeds the quota, and their
// quotient is the rate. A window that is not a whole number of seconds, or differs from month to
// month, is not sent. The reset is in seconds from now, rounded up. For a limit that denies, it is
// the time until the same request is admitted; otherwise until the limit is full.
type Fields uint8

// The forms.
const (
	// Legacy is X-RateLimit-Limit, -Remaining and -Reset of one limit: the one that denies
	// longest, or else has the smallest share left. Reset is in seconds from now.
	Legacy Fields = 1 << iota
	// Draft03 is RateLimit-Limit with its policies, -Remaining and -Reset, as in
	// draft-ietf-httpapi-ratelimit-headers-00 to -03.
	Draft03
	// Draft06 is RateLimit-Limit, -Remaining, -Reset and -Policy, as in -04 to -06.
	Draft06
	// Draft07 is RateLimit as a dictionary and RateLimit-Policy, as in -07.
	Draft07
	// Draft08 is RateLimit and RateLimit-Policy as lists of named items, as in -08 to
	// -11. RateLimit-Policy names every limit that applies to the request. RateLimit
	// reports the remaining quota of each or, in a denial, only of those that denied,
	// because Retry-After should not be earlier than any reset. Partition keys are not
	// sent.
	Draft08
	// NoFields disables all fields but Retry-After.
	NoFields
)

// DefaultFields is the current draft with X-RateLimit-*.
const DefaultFields = Draft08 | Legacy

// The response fields. They are canonical, so that Header.Get finds them.
const (
	fieldLegacyLimit     = "X-Ratelimit-Limit"
	fieldLegacyRemaining = "X-Ratelimit-Remaining"
	fieldLegacyReset     = "X-Ratelimit-Reset"
	fieldLimit           = "Ratelimit-Limit"
	fieldRemaining       = "Ratelimit-Remaining"
	fieldReset           = "Ratelimit-Reset"
	fieldPolicy          = "Ratelimit-Policy"
	fieldRateLimit       = "Ratelimit"
)

var fieldNames = map[string]Fields{
	"off": NoFields, "legacy": Legacy, "x-ratelimit": Legacy,
	"draft-03": Draft03, "draft-06": Draft06, "draft-07": Draft07,
	"draft-08": Draft08, "draft-09": Draft08, "draft-10": Draft08, "draft-11": Draft08,
}

// ParseFields parses names of forms: off, legacy (or x-ratelimit), draft-03, draft-06, draft-07,
// draft-08 (or -09, -10, -11). Without names it returns DefaultFields. An error wraps
// weir.ErrInvalid.
func ParseFields(names ...string) (Fields, error) {
	var f Fields
	for _, name := range names {
		one, ok := fieldNames[strings.ToLower(name)]
		if !ok {
			return 0, fmt.Errorf("httplimit: fields %q: %w: want off, legacy, draft-03, draft-06, draft-07 or draft-08", name, weir.ErrInvalid)
		}
		f |= one
	}
	if f == 0 {
		f = DefaultFields
	}
	return f, f.check()
}

// check returns an error about forms that contradict each other.
func (f Fields) check() error {
	drafts := 0
	for _, draft := range []Fields{Draft03, Draft06, Draft07, Draft08} {
		if f&draft != 0 {
			drafts++
		}
	}
	switch {
	case f >= NoFields<<1:
		return fmt.Errorf("httplimit: fields %#x: %w: want a set of the forms of this package", uint8(f), weir.ErrInvalid)
	case f&NoFields != 0 && f != NoFields:
		return fmt.Errorf("httplimit: fields %s: %w: want off alone", f, weir.ErrInvalid)
	case drafts > 1:
		return fmt.Errorf("httplimit: fields %s: %w: want at most one draft, because they use the same names differently", f, weir.ErrInvalid)
	}
	return nil
}

// String returns the names of the forms, as in "legacy draft-08".
func (f Fields) String() string {
	var names []string
	for i, name := range []string{"legacy", "draft-03", "draft-06", "draft-07", "draft-08", "off"} {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// Names returns the response fields that f sets, in canonical form. A proxy removes them from
// responses of its upstream, which could contradict its own.
func (f Fields) Names() []string {
	f = cmp.Or(f, DefaultFields)
	var names []string
	for _, form := range []struct {
		of    Fields
		names []string
	}{
		{Legacy, []string{fieldLegacyLimit, fieldLegacyRemaining, fieldLegacyReset}},
		{Draft03, []string{fieldLimit, fieldRemaining, fieldReset}},
		{Draft06, []string{fieldLimit, fieldRemaining, fieldReset, fieldPolicy}},
		{Draft07, []string{fieldPolicy, fieldRateLimit}},
		{Draft08, []string{fieldPolicy, fieldRateLimit}},
	} {
		if f&form.of != 0 {
			names = append(names, form.names...)
		}
	}
	return names
}

// An Item is a decision of one limit for the fields.
type Item struct {
	// Name is printable ASCII without '"' and '\'.
	Name     string
	Decision weir.Decision

	// Unit is the quota unit (qu) in RateLimit-Policy of Draft08, such as "tokens"; requests
	// if empty.
	Unit string
}

// Set sets the fields of limits that were decided together. Without items it sets none.
func (f Fields) Set(h http.Header, items ...Item) {
	fields, _ := f.append(nil, items, nil)
	plainhttp.Set(h, fields)
}

// SetDegraded sets DegradedField if the store made no decision.
func (f Fields) SetDegraded(h http.Header, d weir.FailMode) {
	if d != "" && f != NoFields {
		h.Set(DegradedField, string(d))
	}
}

// append appends the fields of Set. It also returns buf, which it may have grown.
func (f Fields) append(fields []plainhttp.Pair, items []Item, buf []byte) ([]plainhttp.Pair, []byte) {
	f = cmp.Or(f, DefaultFields)
	if len(items) == 0 || f == NoFields {
		return fields, buf
	}
	w := writer{text: buf[:0]}
	counts := counting(items)
	limit, remaining, reset := counts.Limit.Capacity(), counts.Remaining, resetSeconds(counts)
	if f&Legacy != 0 {
		w.integer(fieldLegacyLimit, limit)
		w.integer(fieldLegacyRemaining, remaining)
		w.integer(fieldLegacyReset, reset)
	}
	switch {
	case f&Draft03 != 0:
		w.field(fieldLimit, appendWindows(appendUint(w.text, limit), items, true))
		w.integer(fieldRemaining, remaining)
		w.integer(fieldReset, reset)
	case f&Draft06 != 0:
		w.integer(fieldLimit, limit)
		w.integer(fieldRemaining, remaining)
		w.integer(fieldReset, reset)
		w.field(fieldPolicy, appendWindows(w.text, items, false))
	case f&Draft07 != 0:
		w.field(fieldRateLimit, appendDictionary(w.text, limit, remaining, reset))
		w.field(fieldPolicy, appendWindows(w.text, items, false))
	case f&Draft08 != 0:
		w.field(fieldPolicy, appendPolicies(w.text, items))
		w.field(fieldRateLimit, appendLimits(w.text, items, !counts.OK))
	}
	return w.appendTo(fields), w.text
}

// counting returns the decision that counts, as weir.Decision.Combine does.
func counting(items []Item) weir.Decision {
	counts := items[0].Decision
	for _, it := range items[1:] {
		counts = counts.Combine(it.Decision)
	}
	return counts
}
