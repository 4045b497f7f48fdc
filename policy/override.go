package policy

import (
	"bytes"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/policy/internal/spelling"
)

const (
	maxOverrides = 100_000 // of a policy

	// maxWildcards is the largest number of overrides of a policy with a '*' or with a
	// prefix of addresses. A key is compared with one after the other.
	maxWildcards = 1000

	// maxFit is the longest value, in bytes, that is compared with a '*' between other
	// text. Clients choose values, and each may be compared with maxWildcards overrides.
	maxFit = 8 << 10
)

// A wildcard is an override that matches more than one key.
type wildcard struct {
	text     string // equal for all spellings of the same override
	fit      []fit
	override int // index of Config.Overrides
}

// sameOverrides reports whether p and o have overrides of the same keys whose limits are
// the same.
func (p *Policy) sameOverrides(o *Policy, same func(a, b []weir.Limit) bool) bool {
	limits := func(i, j int) bool { return same(p.config.Overrides[i].Limits, o.config.Overrides[j].Limits) }
	return maps.EqualFunc(p.overrides, o.overrides, limits) &&
		slices.EqualFunc(p.wildcards, o.wildcards, func(a, b wildcard) bool { return a.text == b.text && limits(a.override, b.override) })
}

// fits reports whether w gives the limits of a key with such parts.
func (w *wildcard) fits(parts []byte, s *source) bool {
	for i := range w.fit {
		var value []byte
		if value, parts = nextValue(parts); !w.fit[i].matches(value, s) {
			return false
		}
	}
	return true
}

// A fit is what one value of an override stands for: any value and none, the addresses
// of a network, or a text that may have gaps.
type fit struct {
	any     bool
	network netip.Prefix
	text    []string // with a gap between each two
}

// exactly is the fit of one value.
func exactly(value string) fit { return fit{text: []string{value}} }

// gaps is the fit of a text in which '*' is any text.
func gaps(text string) fit {
	if !strings.Contains(text, "*") {
		return exactly(text)
	}
	between := func(s string) bool { return s == "" }
	pieces := strings.Split(text, "*")
	last := len(pieces) - 1
	return fit{text: slices.Concat(pieces[:1], slices.DeleteFunc(pieces[1:last:last], between), pieces[last:])}
}

// exact is the one value that f stands for.
func (f *fit) exact() (value string, ok bool) {
	if len(f.text) != 1 {
		return "", false
	}
	return f.text[0], true
}

// matches takes time in proportion to the value, however many gaps f has.
func (f *fit) matches(value []byte, s *source) bool {
	switch {
	case f.any:
		return true
	case f.network.IsValid():
		return f.network.Contains(s.a.ClientIP().Unmap().WithZone(""))
	}
	first, last := f.text[0], len(f.text)-1
	if last == 0 {
		return string(value) == first
	}
	if len(value) == 0 || len(value) > maxFit || len(value) < len(first)+len(f.text[last]) ||
		string(value[:len(first)]) != first || string(value[len(value)-len(f.text[last]):]) != f.text[last] {
		return false
	}
	value = value[len(first) : len(value)-len(f.text[last])]
	for _, piece := range f.text[1:last] { // the first place leaves the most to those after it
		i := bytes.Index(value, []byte(piece))
		if i < 0 {
			return false
		}
		value = value[i+len(piece):]
	}
	return true
}

func (p *Policy) compileOverrides(f *faults) {
	overrides := p.config.Overrides
	if len(overrides) > maxOverrides {
		f.Add("overrides", count(len(overrides), "override"), "want at most %d", maxOverrides)
		return
	}
	p.overrides = make(map[string]int, len(overrides))
	places := make(map[string]int, len(overrides))
	for i, o := range overrides {
		field := fmt.Sprintf("overrides[%d]", i)
		if len(o.Limits) == 0 {
			f.Add(field+".limits", "", "want at least one limit, such as 1000/s")
		}
		p.compileLimits(f, field+".limits", o.Limits)
		p.most = max(p.most, len(o.Limits))
		if len(p.parts) == 0 {
			continue // that the policy has no key is said already
		}
		if len(o.Key) != len(p.parts) {
			f.Add(field+".key", count(len(o.Key), "value"), "want %d, one for every part of the policy's key", len(p.parts))
			continue
		}
		w, at, want := p.override(o)
		if want != "" {
			f.Add(fmt.Sprintf("%s.key[%d]", field, at), fault.Quote(o.Key[at]), "%s", want)
			continue
		}
		if j, ok := places[w.text]; ok {
			f.Add(field+".key", fault.Quote(strings.Join(o.Key, ", ")), "want every key once: it is that of overrides[%d] already", j)
		}
		places[w.text], w.override = i, i
		if w.fit == nil {
			p.overrides[w.text] = i
		} else if p.wildcards = append(p.wildcards, w); len(p.wildcards) == maxWildcards+1 {
			f.Add(field+".key", fault.Quote(strings.Join(o.Key, ", ")), "want at most %d overrides with a * or a prefix, this is one more", maxWildcards)
		}
	}
}

// override compiles o, whose key has as many values as that of p, or says which of
// them is at fault and what was expected. If o is for one key, that is the text, and
// nothing needs to fit.
func (p *Policy) override(o Override) (w wildcard, at int, want string) {
	whole, exact := []byte(p.bucket), true
	for i := range p.parts {
		f, want := p.parts[i].override(p, o.Key[i])
		if want != "" {
			return w, i, want
		}
		value, ok := f.exact()
		whole, exact = appendValue(whole, value), exact && ok
		w.fit = append(w.fit, f)
	}
	if exact {
		return wildcard{text: p.key(whole)}, 0, ""
	}
	var text []byte // no bucket, with which a key begins, has a space
	for _, f := range w.fit {
		text = fmt.Appendf(text, "%t %v %q\n", f.any, f.network, f.text)
	}
	w.text = string(text)
	return w, 0, ""
}

// override is what text in an override stands for, or what was expected.
func (k *part) override(p *Policy, text string) (f fit, want string) {
	switch {
	case text == "" && k.Source != Constant:
		return exactly(""), "" // the anonymous part
	case k.Source == Constant && text == k.Name:
		return exactly(text), ""
	case k.Source == Path && slices.Contains(p.config.Match.Paths, text):
		return exactly(text), ""
	case strings.Trim(text, "*") == "" && text != "":
		return fit{any: true}, ""
	}
	switch k.Source {
	case ClientIP:
		return k.overrideAddr(text)
	case Constant:
		if f := gaps(text); f.matches([]byte(k.Name), nil) {
			return f, ""
		}
		return f, "want " + fault.Quote(k.Name) + ", the constant of the key"
	case Path:
		if f := gaps(text); slices.ContainsFunc(p.config.Match.Paths, func(path string) bool { return f.matches([]byte(path), nil) }) {
			return f, ""
		}
		return f, "want one of the patterns of match.paths, as it stands there, or a text with a * that fits one"
	case Method:
		if p.method(text) == "*" && (!isToken(text) || !strings.Contains(text, "*")) {
			return f, "want a method that HTTP defines or match.methods lists, or * for any"
		}
		return gaps(strings.ToUpper(text)), ""
	case Host:
		h, bad := spelling.ParseHost(strings.ReplaceAll(text, "*", "x"))
		switch {
		case bad != "":
			return f, "want a host name such as example.com or *.example.com, without a port"
		case strings.Contains(text, "*"):
			return gaps(strings.ToLower(strings.TrimRight(text, "."))), ""
		}
		return exactly(h.Name), ""
	}
	if len(text) > maxText || text != strings.TrimSpace(text) {
		return f, "want at most " + strconv.Itoa(maxText) + " bytes without space around them"
	}
	if k.Source == Header {
		text = k.credentials(text)
	}
	return gaps(text), ""
}

func (k *part) overrideAddr(text string) (f fit, want string) {
	a, err := netip.ParseAddr(text)
	if err != nil {
		n, err := netip.ParsePrefix(text)
		bits := k.v6
		if n.Addr().Is4() {
			bits = 32
		}
		switch {
		case err != nil || n.Addr().Is4In6():
			return f, "want an address such as 203.0.113.7 or 2001:db8::1, a prefix such as 203.0.113.0/24, or * for any"
		case n.Bits() > bits:
			return f, "want a prefix of at most /" + strconv.Itoa(bits) + ": the addresses of one share a bucket"
		case n.Bits() < bits:
			return fit{network: n.Masked()}, ""
		}
		a = n.Addr()
	}
	if a.Zone() != "" {
		return f, "want an address without a zone"
	}
	return exactly(string(appendAddr(nil, a, k.v6))), ""
}
