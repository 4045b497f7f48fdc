package importer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/floodweir/weir/cmd/weir/internal/nginxconf"
)

// Files sets how files are read. The zero value reads those of this machine.
type Files = nginxconf.Files

// Nginx imports the limit_req and limit_conn of an nginx.conf. It follows includes from
// the directory of the file, as nginx does. A file without an http block is read as the
// content of one.
func Nginx(name string, files Files) (*Result, error) {
	n := &nginx{
		builder: newBuilder(
			"Generated from "+filepath.Base(name)+" by `weir import nginx`. Read the differences, then set the upstreams "+
				"(gateway.routes) and test the file.",
			"",
			"differs: paths and hosts are case-insensitive, and /x equals /x/.",
			"differs: zones have no size: the memory of all limits is bounded together, and a key with debt is never evicted.",
		),
		groups: map[string]*group{}, zones: map[string]*shared{}, remarks: map[string]bool{},
	}
	root, err := nginxconf.Read(name, files, func(d *nginxconf.Directive, err error) {
		hint, missing := "", errors.Is(err, os.ErrNotExist)
		if missing && slices.Contains(withoutLimits, filepath.Base(d.Args[0])) {
			return
		}
		if missing && files.Roots == nil && filepath.IsAbs(d.Args[0]) {
			hint = "; --root names the directory of a copied configuration"
		}
		n.list(of(d), d.String(), "cannot be read, so its content is missing here: %s%s", strings.TrimSuffix(err.Error(), ": "+os.ErrNotExist.Error()), hint)
	})
	if err == nil {
		n.http, err = nginxconf.Limits(root)
	}
	if broken := (*nginxconf.Error)(nil); errors.As(err, &broken) {
		return nil, &Error{broken.File, broken.Line, broken.Want}
	}
	if err != nil {
		return nil, err
	}
	n.others(root)
	n.write()
	return n.result(), nil
}

// withoutLimits lists files of nginx's packages that have no limits and no locations.
var withoutLimits = []string{"mime.types", "fastcgi_params", "fastcgi.conf", "scgi_params", "uwsgi_params", "proxy_params"}

// of returns the position of a directive; none if it is nil.
func of(d *nginxconf.Directive) place {
	if d == nil {
		return place{}
	}
	return place{d.File, d.Line}
}

// An nginx imports one nginx.conf.
type nginx struct {
	*builder
	http    *nginxconf.HTTP
	groups  map[string]*group
	order   []*group
	zones   map[string]*shared // by the name of the zone and that of the server
	remarks map[string]bool    // comments at the top of the file

	answering bool // limit paths that nginx answers with return too
}

// A group is the scopes that share one limit, which becomes one policy.
type group struct {
	use     nginxconf.Use
	setting nginxconf.Setting
	name    string // of the server, if it is part of the key
	scopes  map[*nginxconf.Scope]bool
}

// A shared is a zone or, if the key contains the name of the server, the part of a zone that
// belongs to one server.
type shared struct {
	name   string // in the file
	groups int
}

// remark adds a comment at the top of the file, once.
func (n *nginx) remark(text string) {
	if !n.remarks[text] {
		n.remarks[text] = true
		n.head = append(n.head, text)
	}
}

// write creates a policy for each group.
func (n *nginx) write() {
	for _, s := range n.http.Servers {
		for _, o := range s.Scopes {
			if o.Unmatched {
				continue
			}
			for _, u := range o.Uses {
				n.group(s, o, u)
			}
		}
	}
	names := map[string]bool{}
	for _, g := range n.order {
		z := n.zones[g.zone()]
		if z == nil {
			z = &shared{name: unique(names, g.use.Zone.Name)}
			names[z.name] = true
			n.zones[g.zone()] = z
		}
		z.groups++
	}
	for _, g := range n.order {
		n.writeGroup(g)
	}
}

// writeGroup adds the policy of a group. If its condition is too large, it adds a policy for each
// server, which share the zone, or limits paths that nginx answers with return too.
func (n *nginx) writeGroup(g *group) {
	listed := len(n.listed)
	d, ok := n.policy(g)
	if ok && n.check(&d) != nil {
		all := n.listed[:len(n.listed):len(n.listed)]
		n.listed = n.listed[:listed:listed]
		if servers := n.servers(g); len(servers) > 1 {
			n.zones[g.zone()].groups += len(servers) - 1
			for _, one := range servers {
				n.writeGroup(one)
			}
			return
		}
		n.answering = true
		simple, ok := n.policy(g)
		if n.answering = false; ok && n.check(&simple) == nil {
			simple.differs("match", "the paths that nginx answers with return are limited too: a condition without them would be too large.")
			d = simple
		} else {
			n.listed = all
		}
	}
	if ok {
		n.add(d)
	}
}

// servers returns the scopes of g as a group for each server.
func (n *nginx) servers(g *group) (all []*group) {
	for _, s := range n.http.Servers {
		one := &group{use: g.use, setting: g.setting, name: g.name, scopes: map[*nginxconf.Scope]bool{}}
		for _, o := range s.Scopes {
			if !g.scopes[o] {
				continue
			}
			if i := slices.IndexFunc(o.Uses, func(u nginxconf.Use) bool { return u.Zone == g.use.Zone }); i >= 0 && len(one.scopes) == 0 {
				one.use = o.Uses[i]
			}
			one.scopes[o] = true
		}
		if len(one.scopes) > 0 {
			all = append(all, one)
		}
	}
	return all
}

// zone returns the name of the shared state of the group.
func (g *group) zone() string { return g.use.Zone.Name + "\x00" + g.name }

func (n *nginx) group(s *nginxconf.Server, o *nginxconf.Scope, u nginxconf.Use) {
	set := o.Setting
	if u.Zone.Conn {
		set = nginxconf.Setting{ConnStatus: set.ConnStatus, ConnDry: set.ConnDry}
	} else {
		set = nginxconf.Setting{Status: set.Status, Dry: set.Dry}
	}
	name := ""
	if strings.Contains(u.Zone.Key, "$server_name") || strings.Contains(u.Zone.Key, "${server_name") {
		name = s.Name()
	}
	id := fmt.Sprint(u.Zone.Name, " ", u.Zone.Conn, u.N, u.Burst, u.Delay, set, name)
	g := n.groups[id]
	if g == nil {
		g = &group{use: u, setting: set, name: name, scopes: map[*nginxconf.Scope]bool{}}
		n.groups[id] = g
		n.order = append(n.order, g)
	}
	g.scopes[o] = true
}

// policy returns the policy of a group, if it can be expressed and a request matches.
func (n *nginx) policy(g *group) (d draft, ok bool) {
	u := g.use
	d = draft{at: of(u.Directive), from: fmt.Sprintf("%s; of %s: %s", u.Directive, of(u.Zone.Directive), u.Zone.Directive), name: u.Zone.Name}
	zone := n.zones[g.zone()]
	if !n.where(&d, g) {
		return d, false // no request matches
	}
	if why := key(&d, n.http.Block, u.Zone, g.name, zone.groups > 1); why != "" {
		n.list(of(u.Directive), u.Directive.String(), "the key of its zone is %s (%s): %s", short(u.Zone.Key), of(u.Zone.Directive), why)
		return d, false
	}
	if slices.Contains(d.key, "client.ip/128") {
		n.remark("client.ip/128 counts each IPv6 address separately, as nginx does. One client has many addresses: client.ip, without /128, counts its network of 64 bits.")
	}
	name := ""
	if zone.groups > 1 {
		name = zone.name
	}
	if u.Zone.Conn {
		slots(&d, u, g.setting, name)
	} else {
		requests(&d, g, name)
	}
	return d, true
}

// slots sets the limit of a limit_conn. Zone is empty if only one policy uses it.
func slots(d *draft, u nginxconf.Use, set nginxconf.Setting, zone string) {
	d.limits = []string{fmt.Sprintf("%d concurrency", u.N)}
	if zone != "" {
		d.nginx = []string{"zone: " + quoted(zone), fmt.Sprintf("connections: %d", u.N)}
	}
	d.differs("limits", "a slot is held per request, also on a connection with several; a slot that is not renewed is free after a minute.")
	d.status = set.ConnStatus
	if set.ConnDry {
		d.mode = "shadow"
	}
}

// requests sets the limit of a limit_req. Zone is empty if only one policy uses it.
func requests(d *draft, g *group, zone string) {
	u := g.use
	add := func(ok bool, field, format string, args ...any) {
		if ok {
			d.nginx = append(d.nginx, field+": "+fmt.Sprintf(format, args...))
		}
	}
	add(zone != "", "zone", "%s", quoted(zone))
	add(true, "rate", "%dr/%s", u.Zone.Count, u.Zone.Per)
	add(u.Burst > 0, "burst", "%d", u.Burst)
	add(u.Delay < 0, "nodelay", "true")
	add(u.Delay > 0, "delay", "%d", u.Delay)
	add(g.setting.Dry, "dry_run", "true")
	add(g.setting.Status != 503, "status", "%d", g.setting.Status)
	if u.Zone.Sync {
		d.notes = append(d.notes, note{"limits", "sync: processes with the same store share their counts."})
	}
	for o := range g.scopes {
		others := slices.ContainsFunc(o.Uses, func(v nginxconf.Use) bool { return !v.Zone.Conn && v.Zone != u.Zone })
		if g.setting.Dry && others {
			d.differs("limits", "nginx decides the limits of a dry run together; here each is decided separately, and counts requests that another would have denied.")
			return
		}
	}
}
