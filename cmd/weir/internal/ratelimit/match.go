package ratelimit

import "strings"

// An Entry is one entry of a descriptor in a request.
type Entry struct{ Key, Value string }

// A Match is the limit of a domain for a descriptor.
type Match struct {
	// Limit is the limit.
	Limit *Limit

	// Descriptor is the descriptor of the limit.
	Descriptor *Descriptor

	// Key identifies the state of the limit; "" if the limit has no state.
	Key string

	// Path has the names of the matched descriptors, as in
	// "message_type_marketing.to_number". The configuration bounds the number of paths.
	Path string

	// Label is Path, with the values that DetailedMetric and ValueToMetric add. Clients can
	// send any number of values.
	Label string
}

// A level has the descriptors of one list.
type level struct {
	exact    map[Entry]*Descriptor
	bare     map[string]*Descriptor // by key
	patterns []pattern              // in the order of the file
	wild     map[Entry]*Descriptor  // the descriptors of patterns
}

// A pattern is a descriptor with a '*'.
type pattern struct {
	key, value []string // the texts between the '*'
	any        bool     // there is no value
	descriptor *Descriptor
}

// add adds d, or returns the descriptor with the same key and value.
func (l *level) add(d *Descriptor) *Descriptor {
	if l.exact == nil {
		l.exact, l.bare, l.wild = map[Entry]*Descriptor{}, map[string]*Descriptor{}, map[Entry]*Descriptor{}
	}
	e := Entry{d.Key, d.Value}
	switch {
	case strings.Contains(d.Key, "*") || strings.Contains(d.Value, "*"):
		if known := l.wild[e]; known != nil {
			return known
		}
		l.wild[e] = d
		l.patterns = append(l.patterns, pattern{
			key: strings.Split(d.Key, "*"), value: strings.Split(d.Value, "*"), any: d.Value == "", descriptor: d,
		})
	case d.Value == "":
		if known := l.bare[d.Key]; known != nil {
			return known
		}
		l.bare[d.Key] = d
	default:
		if known := l.exact[e]; known != nil {
			return known
		}
		l.exact[e] = d
	}
	return nil
}

// find returns the descriptor for e, or nil, and whether it is a pattern.
func (l *level) find(e Entry) (d *Descriptor, wild bool) {
	if e.Value != "" {
		if d := l.exact[e]; d != nil {
			return d, false
		}
	}
	for i := range l.patterns {
		p := &l.patterns[i]
		if matches(p.key, e.Key) && (p.any || matches(p.value, e.Value)) {
			return p.descriptor, true
		}
	}
	return l.bare[e.Key], false
}

// matches reports whether text has the parts in order, beginning with the first and
// ending with the last, and anything between them.
func matches(parts []string, text string) bool {
	if len(parts) == 1 {
		return parts[0] == text
	}
	rest, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	if rest, ok = strings.CutSuffix(rest, parts[len(parts)-1]); !ok {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	return true
}

// A step is one entry and the descriptor that matched it.
type step struct {
	Entry
	d    *Descriptor
	wild bool
}

// shared returns the pattern whose values share one state, or "".
func (s *step) shared() string {
	switch {
	case !s.wild || !s.d.ShareThreshold:
		return ""
	case s.d.Value == "":
		return s.d.Key
	}
	return s.d.Value
}

// Match returns the limit of a descriptor, and false if there is none. A limit for fewer or
// more entries does not match. A nil Domain has no limits.
func (d *Domain) Match(entries []Entry) (Match, bool) {
	if d == nil || len(entries) == 0 || len(entries) > d.depth {
		return Match{}, false
	}
	var few [8]step
	steps, at := few[:0], &d.level
	for _, e := range entries {
		next, wild := at.find(e)
		if next == nil {
			return Match{}, false
		}
		steps = append(steps, step{e, next, wild})
		at = &next.level
	}
	last := steps[len(steps)-1].d
	if last.Limit == nil {
		return Match{}, false
	}
	m := Match{Limit: last.Limit, Descriptor: last, Path: last.label, Label: label(steps)}
	if !last.Limit.Limit.IsZero() {
		m.Key = key(d.Name, steps)
	}
	return m, true
}

// Paths returns the Match.Path of every descriptor of d with a limit.
func (d *Domain) Paths() []string {
	var paths []string
	var walk func([]*Descriptor)
	walk = func(ds []*Descriptor) {
		for _, d := range ds {
			if d.Limit != nil {
				paths = append(paths, d.label)
			}
			walk(d.Descriptors)
		}
	}
	if d != nil {
		walk(d.Descriptors)
	}
	return paths
}

// Depth returns the largest number of entries of a descriptor in d.
func (d *Domain) Depth() int {
	if d == nil {
		return 0
	}
	return d.depth
}
