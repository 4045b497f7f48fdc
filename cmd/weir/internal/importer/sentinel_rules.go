package importer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// A rule is one element of the array.
type rule struct {
	place
	fields map[string]json.RawMessage
	names  []string // in order
	faults []string // invalid fields

	kind     string // of the resource of Kubernetes that has it; "" for another
	source   string // its short form in the input; "" before it is translated
	bbr      bool   // a system rule of sentinel-golang that admits what the process can serve
	interval int64  // statIntervalInMs of sentinel-golang; 0 for a second
}

// period returns the period of a limit as text.
func (r *rule) period() string {
	switch {
	case r.interval <= 0 || r.interval == 1000:
		return "s"
	case r.interval%1000 == 0:
		return fmt.Sprintf("%ds", r.interval/1000)
	}
	return fmt.Sprintf("%dms", r.interval)
}

// fieldName returns a name as Sentinel spells it. Go reads names without case, and its files
// have some with a capital.
func fieldName(name string) string {
	if name == "ID" {
		return "id"
	}
	if name != "" && name[0] >= 'A' && name[0] <= 'Z' {
		return strings.ToLower(name[:1]) + name[1:]
	}
	return name
}

const maxRules = 100_000

// array reads an array in JSON after a number of other lines, with the line of each element.
func (s *sentinel) array(data []byte, before int) ([]rule, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	line := func() int { return before + 1 + bytes.Count(data[:min(int(d.InputOffset()), len(data))], []byte("\n")) }
	fail := func(want string) error { return &Error{s.file, line(), want} }
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return nil, fail(wantRules)
	}
	var rules []rule
	for d.More() {
		// The offset is the end of the previous element. This one begins after a comma and
		// space.
		rest := data[d.InputOffset():]
		gap := rest[:len(rest)-len(bytes.TrimLeft(rest, ", \t\r\n"))]
		r := rule{place: place{s.file, line() + bytes.Count(gap, []byte("\n"))}, fields: map[string]json.RawMessage{}}
		if t, err := d.Token(); err != nil || t != json.Delim('{') {
			return nil, fail("want a rule, which is an object")
		}
		for d.More() {
			t, err := d.Token()
			if err != nil {
				return nil, fail("want JSON: " + err.Error())
			}
			name := fieldName(t.(string)) // names of members are strings
			if r.fields[name] != nil {
				return nil, fail(fmt.Sprintf("%q: want every field once", short(name)))
			}
			var value json.RawMessage
			if err := d.Decode(&value); err != nil {
				return nil, fail("want JSON: " + err.Error())
			}
			r.fields[name] = value
			r.names = append(r.names, name)
		}
		if _, err := d.Token(); err != nil {
			return nil, fail("want JSON: " + err.Error())
		}
		if rules = append(rules, r); len(rules) > maxRules {
			return nil, fail(fmt.Sprintf("want at most %d rules", maxRules))
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, fail("want JSON: " + err.Error())
	}
	if rest := bytes.TrimSpace(data[d.InputOffset():]); len(rest) > 0 {
		return nil, fail("want nothing after the array")
	}
	return rules, nil
}

// fault records an invalid field.
func (r *rule) fault(name, want string) {
	r.faults = append(r.faults, fmt.Sprintf("%s is %s, want %s", name, short(string(r.fields[name])), want))
}

func (r *rule) has(names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return r.fields[n] != nil && string(r.fields[n]) != "null" })
}

func (r *rule) text(name, otherwise string) string {
	s := otherwise
	if r.has(name) && json.Unmarshal(r.fields[name], &s) != nil {
		r.fault(name, "a text")
	}
	return s
}

func (r *rule) number(name string, otherwise int64) int64 {
	n := otherwise
	if r.has(name) && json.Unmarshal(r.fields[name], &n) != nil {
		r.fault(name, "a whole number")
	}
	return n
}

func (r *rule) flag(name string) (b bool) {
	if r.has(name) && json.Unmarshal(r.fields[name], &b) != nil {
		r.fault(name, "true or false")
	}
	return b
}

// count returns the rule's count, which may have a fraction.
func (r *rule) count() *big.Rat { return r.rational("count", nil) }

// rational returns a number, which may have a fraction. It is required if otherwise is nil.
func (r *rule) rational(name string, otherwise *big.Rat) *big.Rat {
	if otherwise != nil && !r.has(name) {
		return otherwise
	}
	var n json.Number
	text := strings.TrimSpace(string(r.fields[name]))
	if err := json.Unmarshal([]byte(text), &n); err == nil && text != "" && text[0] != '"' {
		if f, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(f) < 1e15 && (f == 0 || math.Abs(f) > 1e-9) {
			if c, ok := new(big.Rat).SetString(text); ok {
				return c
			}
		}
	}
	r.fault(name, "a number below 10^15")
	return new(big.Rat)
}

// String returns a short form of the rule.
func (r *rule) String() string {
	if r.source != "" {
		return r.source
	}
	var parts []string
	for _, name := range []string{"resource", "limitApp", "grade", "count", "strategy", "controlBehavior", "paramIdx", "timeWindow", "threshold", "tokenCalculateStrategy", "relationStrategy", "metricType", "triggerCount", "paramIndex", "paramKey", "statIntervalInMs", "retryTimeoutMs"} {
		if r.has(name) {
			parts = append(parts, name+" "+string(r.fields[name]))
		}
	}
	if parts == nil {
		return "a rule without resource"
	}
	return short(strings.Join(parts, ", "))
}
