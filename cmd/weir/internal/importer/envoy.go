package importer

import (
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
)

// Envoy imports the configuration of envoyproxy/ratelimit: files, or directories of
// them. It returns the errors of package ratelimit.
func Envoy(paths ...string) (*Result, error) {
	e := &envoy{builder: newBuilder(
		"Generated from "+strings.Join(paths, ", ")+" by `weir import envoy`, for use without Envoy. "+
			"With Envoy, `weir serve` reads the configuration itself: grpc.config.",
		"",
		"differs: Envoy's configuration, which is not imported, defines the entries of a descriptor. "+
			"remote_address, path, method and host have their usual meaning; any other entry is the header of its name, with - for _. "+
			"Check each, and let only a trusted proxy set such a header.",
		"differs: a policy matches every request with these values, even if Envoy's route would not send such a descriptor.",
	)}
	for _, path := range paths {
		c, err := ratelimit.Load(path)
		if err != nil {
			return nil, err
		}
		for _, d := range c.Domains() {
			e.lines = linesOf(d)
			e.domain = d
			e.level(d.Descriptors, criteria{name: d.Name})
		}
	}
	return e.result(), nil
}

// An envoy imports such a configuration.
type envoy struct {
	*builder
	domain *ratelimit.Domain
	lines  map[*ratelimit.Descriptor]int
}

func (e *envoy) place(d *ratelimit.Descriptor) place { return place{e.domain.File, e.lines[d]} }

// criteria has the conditions and the key parts of the descriptors down to a level.
type criteria struct {
	name  string // of the policy
	where []string
	key   []string
	why   string // why they cannot be expressed; "" if they can
}

// level creates policies for the descriptors of one level.
func (e *envoy) level(ds []*ratelimit.Descriptor, above criteria) {
	var taken []*ratelimit.Descriptor // overrides of another
	for _, d := range ds {
		taken = append(taken, overrides(ds, d)...)
	}
	for _, d := range ds {
		if d.Limit != nil && !slices.Contains(taken, d) {
			own := overrides(ds, d)
			e.limit(ds, d, narrow(ds, d, above, own), own)
		}
		if len(d.Descriptors) > 0 {
			e.level(d.Descriptors, narrow(ds, d, above, nil))
		}
	}
}

// plainLimit reports whether a descriptor has a limit that may be, or have, an
// override.
func plainLimit(d *ratelimit.Descriptor) bool {
	l := d.Limit
	return l != nil && !l.Quota && len(l.Replaces) == 0 && !d.ShareThreshold && !strings.Contains(d.Key, "*")
}

// overrides returns the descriptors beside d, which has no value, that only change the
// limit for some values, exact values first. It returns none if a value with a '*' cannot be
// an override: the policy then excludes that value, and so it excludes its overrides too.
func overrides(ds []*ratelimit.Descriptor, d *ratelimit.Descriptor) []*ratelimit.Descriptor {
	a := attributeOf(d.Key)
	if d.Value != "" || !plainLimit(d) || d.Limit.Unlimited || d.Limit.Blocks() || a.key == "" {
		return nil
	}
	var exact, wild []*ratelimit.Descriptor
	for _, o := range ds {
		if o.Key != d.Key || o.Value == "" {
			continue
		}
		is := plainLimit(o) && (o.Limit.Shadow == d.Limit.Shadow || o.Limit.Unlimited) && a.is(o.Value) != ""
		switch pattern := strings.Contains(o.Value, "*"); {
		case pattern && (!is || !a.wild):
			return nil
		case pattern:
			wild = append(wild, o)
		case is:
			exact = append(exact, o)
		}
	}
	return append(exact, wild...)
}

// stronger returns the descriptors beside d that are matched before it: exact values, then
// values with a '*' in the order of the file, then the descriptor without a value.
func stronger(ds []*ratelimit.Descriptor, d *ratelimit.Descriptor) (all []*ratelimit.Descriptor) {
	if d.Value != "" && !strings.Contains(d.Value, "*") {
		return nil
	}
	at := slices.Index(ds, d)
	for i, o := range ds {
		if o.Key != d.Key || o.Value == "" || o == d {
			continue
		}
		switch wild := strings.Contains(o.Value, "*"); {
		case d.Value == "", wild && i < at:
			all = append(all, o)
		case !wild && regexp.MustCompile(glob(d.Value)).MatchString(o.Value):
			all = append(all, o)
		}
	}
	return all
}

// withoutValue reports whether ds has a descriptor of a key for all values. Beside it, a
// value of "*" has no meaning of its own.
func withoutValue(ds []*ratelimit.Descriptor, key string) bool {
	return slices.ContainsFunc(ds, func(o *ratelimit.Descriptor) bool { return o.Key == key && o.Value == "" })
}

// narrow returns the criteria of d, one of ds, within those of above. Its conditions exclude
// the stronger descriptors, except those in but.
func narrow(ds []*ratelimit.Descriptor, d *ratelimit.Descriptor, above criteria, but []*ratelimit.Descriptor) criteria {
	name := d.Key
	if d.Value != "" {
		name += "-" + d.Value
	}
	a := attributeOf(d.Key)
	var where, key []string
	why := above.why
	switch wild := strings.Contains(d.Value, "*"); {
	case strings.Contains(d.Key, "*") || a.text == "":
		why = fmt.Sprintf("no attribute of a request has the name %q", short(d.Key))
	case d.Value == "" && a.key == "":
		why = "a client can spell it in many ways, so it cannot be a key: list the paths"
	case d.Value == "" && a.header:
		where, key = append(where, a.text+` != ""`), append(key, a.key)
	case d.Value == "":
		key = append(key, a.key)
	case d.Value == "*" && !d.ShareThreshold && a.key != "" && !a.wild && !withoutValue(ds, d.Key):
		key = append(key, a.key)
	case wild && !a.wild:
		why = fmt.Sprintf("%s cannot be compared with a pattern", d.Key)
	case wild && !d.ShareThreshold && a.key == "":
		why = "each matching path would have a bucket, and a client can spell a path in many ways: set share_threshold, or list the paths"
	case a.is(d.Value) == "":
		why = fmt.Sprintf("%q is not a valid value of %s", short(d.Value), d.Key)
	default:
		where = append(where, a.is(d.Value))
		if wild && !d.ShareThreshold {
			key = append(key, a.key)
		}
	}
	var values []string
	if why == "" {
		for _, o := range stronger(ds, d) {
			switch c := a.is(o.Value); {
			case slices.Contains(but, o) || c == "":
			case strings.Contains(o.Value, "*") || !a.in:
				where = append(where, not([]string{c}))
			default:
				values = append(values, cel(a.fold(o.Value)))
			}
		}
	}
	switch len(values) {
	case 0:
	case 1:
		where = append(where, a.text+" != "+values[0])
	default:
		where = append(where, fmt.Sprintf("!(%s in [%s])", a.text, strings.Join(values, ", ")))
	}
	return criteria{above.name + "-" + name, slices.Concat(above.where, where), slices.Concat(above.key, key), why}
}

// limit creates the policy of a limit, or lists it.
func (e *envoy) limit(ds []*ratelimit.Descriptor, d *ratelimit.Descriptor, w criteria, overrides []*ratelimit.Descriptor) {
	l := d.Limit
	what := fmt.Sprintf("%s: %s", w.name, describe(l))
	switch {
	case l.Unlimited:
		return // other policies exclude its requests
	case w.why != "":
		e.list(e.place(d), what, "%s", w.why)
		return
	case l.Quota:
		e.list(e.place(d), what, "quota_mode denies only if every other quota denies too, and each policy decides alone")
		return
	}
	p := draft{at: e.place(d), from: what, name: w.name, where: w.where, key: w.key, block: l.Blocks()}
	if !l.Blocks() {
		p.limits = []string{l.Limit.String()}
	}
	if len(p.where) == 0 {
		p.where = nil
	}
	if len(p.key) == 0 {
		p.key = []string{"const:all"}
	}
	if l.Shadow {
		p.mode = "shadow"
	}
	if strings.EqualFold(d.Key, "masked_remote_address") && d.Value == "" {
		p.differs("key", "Envoy's configuration defines the number of bits of an address; here IPv4 has all, and IPv6 64.")
	}
	if d.Metadata != nil {
		p.differs("", "metadata is omitted: it is for Envoy.")
	}
	if l.Count == ratelimit.CountAll {
		p.differs("limits", "count: all is omitted: denied hits do not count.")
	}
	for _, o := range overrides {
		values := slices.Repeat([]string{"*"}, len(w.key))
		values[len(values)-1] = o.Value
		p.overrides = append(p.overrides, override{values, overrideLimit(o.Limit)})
	}
	e.add(p)
	for _, name := range l.Replaces {
		// A limit beside d that is matched after d does not apply to requests of d anyway.
		if !slices.ContainsFunc(ds, func(o *ratelimit.Descriptor) bool {
			return o.Limit != nil && o.Limit.Name == name && slices.Contains(stronger(ds, o), d)
		}) {
			e.list(e.place(d), fmt.Sprintf("replaces %s of %s", name, what), "a request that matches both limits is charged by both")
		}
	}
}

// overrideLimit returns the limit of an override.
func overrideLimit(l *ratelimit.Limit) string {
	switch {
	case l.Unlimited:
		return unlimited
	case l.Blocks():
		return blocks
	}
	return l.Limit.String()
}

func describe(l *ratelimit.Limit) string {
	switch {
	case l.Unlimited:
		return "unlimited"
	case l.Blocks():
		return "requests_per_unit 0"
	}
	return l.Limit.String()
}

// An attribute is the part of a request for the key of a descriptor.
type attribute struct {
	text   string // in an expression
	key    string // as a key part; "" if it cannot be one
	header bool   // it may be missing
	wild   bool   // patterns are allowed
	in     bool   // it is compared as text
	folded bool   // it is in lower case
	equals func(value string) string
}

func (a *attribute) fold(value string) string {
	if a.folded {
		return strings.ToLower(value)
	}
	return value
}

// is returns the condition that an attribute has a value, which may contain a '*'. It is ""
// if the attribute cannot have the value.
func (a *attribute) is(value string) string {
	switch {
	case a.equals != nil:
		return a.equals(value)
	case strings.Contains(value, "*"):
		return fmt.Sprintf("%s.matches(%s)", a.text, cel(glob(a.fold(value))))
	}
	return a.text + " == " + cel(a.fold(value))
}

func attributeOf(key string) attribute {
	switch name := strings.Trim(strings.ToLower(key), ":"); name {
	case "remote_address":
		return attribute{text: "client.ip", key: "client.ip/128", equals: func(v string) string {
			a, err := netip.ParseAddr(v)
			if err != nil {
				return ""
			}
			return "client.ip == " + cel(a.Unmap().String())
		}}
	case "masked_remote_address":
		return attribute{text: "client.ip", key: "client.ip", equals: func(v string) string {
			p, err := netip.ParsePrefix(v)
			if err != nil {
				return ""
			}
			return fmt.Sprintf("cidr(%s).containsIP(client.ip)", cel(p.Masked().String()))
		}}
	case "path":
		return attribute{text: "request.path", wild: true, in: true, folded: true}
	case "method":
		return attribute{text: "request.method", key: "method", wild: true, in: true}
	case "host", "authority":
		return attribute{text: "request.host", key: "cel:request.host", wild: true, in: true, folded: true}
	}
	header := strings.ReplaceAll(strings.ToLower(key), "_", "-")
	if !token.MatchString(header) || header == "host" {
		return attribute{}
	}
	return attribute{
		text: fmt.Sprintf("request.headers[%s]", cel(header)), key: "header:" + http.CanonicalHeaderKey(header),
		header: true, wild: true, in: true,
	}
}

var token = regexp.MustCompile("^[a-z0-9!#$%&'*+.^_`|~-]+$")

// glob returns a value with '*' as a regular expression.
func glob(value string) string {
	return "^" + strings.ReplaceAll(regexp.QuoteMeta(value), `\*`, ".*") + "$"
}

var keyLine = regexp.MustCompile(`^[^#]*?(?:^|[\s{,-])["']?key["']?[ \t]*:[ \t]*(?:"([^"]*)"|'([^']*)'|([^"'\s,}#]+))`)

// linesOf finds the lines of descriptors: the file has one key for each, in their
// order. If the numbers differ, the lines are unknown.
func linesOf(d *ratelimit.Domain) map[*ratelimit.Descriptor]int {
	data, err := os.ReadFile(d.File)
	if err != nil {
		return nil
	}
	var order []*ratelimit.Descriptor
	var walk func([]*ratelimit.Descriptor)
	walk = func(ds []*ratelimit.Descriptor) {
		for _, one := range ds {
			order = append(order, one)
			walk(one.Descriptors)
		}
	}
	walk(d.Descriptors)
	lines := map[*ratelimit.Descriptor]int{}
	n, found := 0, 0
	for line := range strings.Lines(string(data)) {
		n++
		m := keyLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if found == len(order) || order[found].Key != m[1]+m[2]+m[3] {
			return nil
		}
		lines[order[found]] = n
		found++
	}
	if found < len(order) {
		return nil
	}
	return lines
}
