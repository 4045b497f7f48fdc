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
			"remote_address, path, method and host have their usual meaning; any other entry stands for the header of its name, with - for _. "+
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
			e.level(d.Descriptors, way{name: d.Name})
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

// A way is the conditions and key of the descriptors down to a level.
type way struct {
	name  string // of the policy
	where []string
	key   []string
	lost  string // why it cannot be said; "" if it can
}

// level creates policies for the descriptors of one level.
func (e *envoy) level(ds []*ratelimit.Descriptor, above way) {
	var taken []*ratelimit.Descriptor // as overrides of another
	for _, d := range ds {
		taken = append(taken, overrides(ds, d)...)
	}
	for _, d := range ds {
		if d.Limit != nil && !slices.Contains(taken, d) {
			own := overrides(ds, d)
			e.limit(ds, d, step(ds, d, above, own), own)
		}
		if len(d.Descriptors) > 0 {
			e.level(d.Descriptors, step(ds, d, above, nil))
		}
	}
}

// plainLimit reports whether a descriptor has a limit that may be, or have, an
// override.
func plainLimit(d *ratelimit.Descriptor) bool {
	l := d.Limit
	return l != nil && !l.Unlimited && !l.Blocks() && !l.Quota && len(l.Replaces) == 0 && !d.ShareThreshold && !strings.Contains(d.Key, "*")
}

// overrides returns the descriptors beside d, which has no value, that only change the
// limit for some values: those of one value first. It returns none if a value with a
// '*' is not among them, since a value that the policy excludes is excluded from its
// overrides too.
func overrides(ds []*ratelimit.Descriptor, d *ratelimit.Descriptor) []*ratelimit.Descriptor {
	a := attributeOf(d.Key)
	if d.Value != "" || !plainLimit(d) || a.key == "" {
		return nil
	}
	var exact, wild []*ratelimit.Descriptor
	for _, o := range ds {
		if o.Key != d.Key || o.Value == "" {
			continue
		}
		is := plainLimit(o) && o.Limit.Shadow == d.Limit.Shadow && a.is(o.Value) != ""
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

// stronger returns the descriptors beside d that are matched before it. A value comes
// before one with a '*', and that before none. Those with a '*' are in the order of the
// file.
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

// step returns the way from above to d, one of ds. Its conditions exclude the stronger
// descriptors, except those in but.
func step(ds []*ratelimit.Descriptor, d *ratelimit.Descriptor, above way, but []*ratelimit.Descriptor) way {
	name := d.Key
	if d.Value != "" {
		name += "-" + d.Value
	}
	a := attributeOf(d.Key)
	var where, key []string
	lost := above.lost
	switch wild := strings.Contains(d.Value, "*"); {
	case strings.Contains(d.Key, "*") || a.text == "":
		lost = fmt.Sprintf("no request has an attribute of the name %q", short(d.Key))
	case d.Value == "" && a.key == "":
		lost = "what a client can spell in many ways is no key: name the paths"
	case d.Value == "" && a.header:
		where, key = append(where, a.text+` != ""`), append(key, a.key)
	case d.Value == "":
		key = append(key, a.key)
	case wild && !a.wild:
		lost = fmt.Sprintf("a %s is not compared with a pattern", d.Key)
	case wild && !d.ShareThreshold && a.key == "":
		lost = "every path that fits would be counted by itself, and what a client can spell in many ways is no key: set share_threshold, or name the paths"
	case a.is(d.Value) == "":
		lost = fmt.Sprintf("%q is no value of %s", short(d.Value), d.Key)
	default:
		where = append(where, a.is(d.Value))
		if wild && !d.ShareThreshold {
			key = append(key, a.key)
		}
	}
	var values []string
	if lost == "" {
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
	return way{above.name + "-" + name, slices.Concat(above.where, where), slices.Concat(above.key, key), lost}
}

// limit creates the policy of a limit, or lists it.
func (e *envoy) limit(ds []*ratelimit.Descriptor, d *ratelimit.Descriptor, w way, overrides []*ratelimit.Descriptor) {
	l := d.Limit
	what := fmt.Sprintf("%s: %s", w.name, describe(l))
	switch {
	case l.Unlimited:
		return // other policies leave its requests out
	case w.lost != "":
		e.list(e.place(d), what, "%s", w.lost)
		return
	case l.Blocks():
		e.list(e.place(d), what, "it lets nothing through, and that is no limit: refuse these requests where they come in")
		return
	case l.Quota:
		e.list(e.place(d), what, "quota_mode denies only where every other quota denies too, and policies are judged each alone")
		return
	}
	p := draft{at: e.place(d), from: what, name: w.name, where: w.where, key: w.key, limits: []string{l.Limit.String()}}
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
		p.differs("key", "Envoy's configuration defines the number of bits of an address: here an IPv4 address has all, and an IPv6 address 64.")
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
		p.overrides = append(p.overrides, override{values, o.Limit.Limit.String()})
	}
	e.add(p)
	for _, name := range l.Replaces {
		// One that comes after d beside it is left alone by the requests of d anyway.
		if !slices.ContainsFunc(ds, func(o *ratelimit.Descriptor) bool {
			return o.Limit != nil && o.Limit.Name == name && slices.Contains(stronger(ds, o), d)
		}) {
			e.list(e.place(d), fmt.Sprintf("replaces %s of %s", name, what), "a request that both limits are about is judged by both")
		}
	}
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

// An attribute is the part of a request that stands for an entry of a descriptor.
type attribute struct {
	text   string // in an expression
	key    string // as a part of a key; "" if it is none
	header bool   // a request may have none
	wild   bool   // it is compared with patterns
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

// is returns the condition that an attribute has a value, which may contain a '*'; ""
// if it never has.
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
