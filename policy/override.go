package policy

import (
	"fmt"
	"maps"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/policy/internal/pattern"
	"github.com/floodweir/weir/policy/internal/spelling"
)

const (
	maxOverrides = 100_000 // of a policy

	// maxWildcards is the largest number of overrides of a policy with a '*' or with a
	// prefix of addresses. A key is compared with one after the other.
	maxWildcards = 1000
)

// A wildcard is an override that matches more than one key.
type wildcard struct {
	text     string // equal for all spellings of the same override
	fit      []pattern.Pattern
	override int // index of Config.Overrides
}

// yield lets other goroutines run at each hundredth element of a long list: on a small machine, a
// reload would otherwise delay requests by whole slices of time.
func yield(i int) {
	if i%100 == 99 {
		runtime.Gosched()
	}
}

// sameOverrides reports whether p and o have overrides of the same keys whose limits are
// the same.
func (p *Policy) sameOverrides(o *Policy, same func(a, b []weir.Limit) bool) bool {
	n := 0
	limits := func(i, j int) bool {
		n++
		yield(n)
		a, b := &p.config.Overrides[i], &o.config.Overrides[j]
		return a.Block == b.Block && a.Unlimited == b.Unlimited && same(a.Limits, b.Limits)
	}
	return maps.EqualFunc(p.overrides, o.overrides, limits) &&
		slices.EqualFunc(p.wildcards, o.wildcards, func(a, b wildcard) bool { return a.text == b.text && limits(a.override, b.override) })
}

// fits reports whether w matches the parts of a key.
func (w *wildcard) fits(parts []byte, s *source) bool {
	for i := range w.fit {
		var value []byte
		if value, parts = nextValue(parts); !w.fit[i].Matches(value, s.a.ClientIP) {
			return false
		}
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
	valid := map[*weir.Limit]int{}
	for i, o := range overrides {
		yield(i)
		field := "overrides[" + strconv.Itoa(i) + "]"
		checkFixed(f, field+".", o.Limits, o.Block, o.Unlimited)
		if n := len(o.Limits); n > 0 && valid[&o.Limits[0]] != n { // overrides of a table share few slices
			before := len(f.Errs)
			if p.compileLimits(f, field+".limits", o.Limits); len(f.Errs) == before {
				valid[&o.Limits[0]] = n
			}
		}
		if len(p.parts) == 0 {
			continue // the missing key is reported already
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

// override compiles o, whose key has as many values as that of p. It returns the index of an
// invalid value and the accepted values. If o is for one key, w has the key as its text and
// no patterns.
func (p *Policy) override(o Override) (w wildcard, at int, want string) {
	whole, exact := []byte(p.bucket), true
	for i := range p.parts {
		f, want := p.parts[i].override(p, o.Key[i])
		if want != "" {
			return w, i, want
		}
		value, ok := f.Value()
		whole, exact = appendValue(whole, value), exact && ok
		w.fit = append(w.fit, f)
	}
	if exact {
		return wildcard{text: p.key(whole)}, 0, ""
	}
	var text []byte // differs from every key: a key has no space in its bucket
	for _, f := range w.fit {
		text = fmt.Appendf(text, "%t %v %q\n", f.Any, f.Network, f.Text)
	}
	w.text = string(text)
	return w, 0, ""
}

// override returns the pattern of a value in an override, or the accepted values.
func (k *part) override(p *Policy, text string) (f pattern.Pattern, want string) {
	switch {
	case text == "" && k.Source != Constant:
		return pattern.Exact(""), "" // the anonymous part
	case k.Source == Constant && text == k.Name:
		return pattern.Exact(text), ""
	case k.Source == Path && slices.Contains(p.config.Match.Paths, text):
		return pattern.Exact(text), ""
	case strings.Trim(text, "*") == "" && text != "":
		return pattern.Pattern{Any: true}, ""
	}
	switch k.Source {
	case ClientIP:
		return k.overrideAddr(text)
	case Constant:
		if f := pattern.Parse(text); f.Matches([]byte(k.Name), nil) {
			return f, ""
		}
		return f, "want " + fault.Quote(k.Name) + ", the constant of the key"
	case Path:
		if f := pattern.Parse(text); slices.ContainsFunc(p.config.Match.Paths, func(path string) bool { return f.Matches([]byte(path), nil) }) {
			return f, ""
		}
		return f, "want one of the patterns of match.paths, as it stands there, or a text with a * that fits one"
	case Method:
		if p.method(text) == "*" && (!spelling.IsToken(text) || !strings.Contains(text, "*")) {
			return f, "want a method that HTTP defines or match.methods lists, or * for any"
		}
		return pattern.Parse(strings.ToUpper(text)), ""
	case Host:
		h, bad := spelling.ParseHost(strings.ReplaceAll(text, "*", "x"))
		switch {
		case bad != "":
			return f, "want a host name such as example.com or *.example.com, without a port"
		case strings.Contains(text, "*"):
			return pattern.Parse(strings.ToLower(strings.TrimRight(text, "."))), ""
		}
		return pattern.Exact(h.Name), ""
	}
	text, want = k.text(text)
	if want != "" {
		return f, want
	}
	return pattern.Parse(text), ""
}

// text returns a value that a client chooses freely as requests have it, or the accepted values.
func (k *part) text(text string) (value, want string) {
	if len(text) > maxText || text != strings.TrimSpace(text) {
		return "", "want at most " + strconv.Itoa(maxText) + " bytes without space around them"
	}
	switch k.Source {
	case Header:
		text = spelling.Credentials(k.Name, text)
	case Form, JSON:
		text = spelling.BodyText(text)
	}
	return text, ""
}

func (k *part) overrideAddr(text string) (f pattern.Pattern, want string) {
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
			return pattern.Pattern{Network: n.Masked()}, ""
		}
		a = n.Addr()
	}
	if a.Zone() != "" {
		return f, "want an address without a zone"
	}
	return pattern.Exact(string(spelling.AppendAddr(nil, a, k.v6))), ""
}
