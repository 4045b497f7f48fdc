package importer

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Nginx imports the limit_req and limit_conn of an nginx.conf. Includes are followed
// from the directory of the file, as nginx does. A file without an http block is taken
// for what stands in one.
func Nginx(name string, files Files) (*Result, error) {
	files.setDefaults()
	n := &nginx{
		builder: newBuilder(
			"Made of "+filepath.Base(name)+" by `weir import nginx`. Read what differs, then say where requests go "+
				"(gateway.routes), and try it in front of what nginx is in front of.",
			"",
			"differs: paths and hosts are compared without case, and a path with and without a slash at its end is one.",
			"differs: zones have no size: the memory of all limits is bounded together, and a key that owes is not forgotten.",
		),
		zones: map[string]*zone{}, groups: map[string]*group{}, told: map[string]bool{},
	}
	r := &confReader{files: files, dir: filepath.Dir(name), absent: func(p place, what string, err error) {
		n.list(p, what, "cannot be read, and what it says is not here: %v", err)
	}}
	root, err := r.file(name, 0)
	if err != nil {
		return nil, err
	}
	if err := n.http(root); err != nil {
		return nil, err
	}
	n.write()
	return n.result(), nil
}

// An nginx is the import of one nginx.conf.
type nginx struct {
	*builder
	zones   map[string]*zone
	servers []*server
	groups  map[string]*group
	order   []*group
	told    map[string]bool // what is said once
}

// A zone is where nginx counts.
type zone struct {
	place
	name  string
	text  string // the directive
	key   string
	conn  bool   // of limit_conn
	count int64  // of limit_req
	per   string // s or m
	sync  bool
}

// A use is a limit_req or limit_conn that is in force.
type use struct {
	*directive
	zone  *zone
	n     int64 // limit_conn: how many
	burst int64
	delay int64 // -1: nodelay
}

// A setting is what a level says of its limits beside them, each inherited alone.
type setting struct {
	status, connStatus int
	dry, connDry       bool
}

// A scope is a server, or a location within one, with the limits in force in it.
type scope struct {
	*location
	at        place
	uses      []use
	setting   setting
	answers   bool // by return, before there are limits
	unmatched bool // no request gets here by its path
}

// A group is the places that have one limit in common, which is one policy.
type group struct {
	use     use
	setting setting
	name    string // of the server, if it is part of the key
	scopes  map[*scope]bool
}

// http reads what stands in the http block.
func (n *nginx) http(root []*directive) error {
	blocks := find(root, "http")
	for _, d := range root {
		if (d.name == "stream" || d.name == "mail") && d.isBlock() {
			n.foreign(d)
		}
	}
	content := root
	if len(blocks) > 0 {
		content = nil
		for _, b := range blocks {
			content = append(content, b.block...)
		}
	}
	for _, d := range content {
		if d.name == "limit_req_zone" || d.name == "limit_conn_zone" {
			if err := n.zone(d); err != nil {
				return err
			}
		}
	}
	outer := &scope{location: &location{}, setting: setting{status: 503, connStatus: 503}}
	if err := n.level(content, outer, outer); err != nil {
		return err
	}
	for _, d := range find(content, "server") {
		if !d.isBlock() {
			continue
		}
		s, err := n.server(d, outer)
		if err != nil {
			return err
		}
		n.servers = append(n.servers, s)
	}
	if len(n.servers) == 0 {
		n.servers = []*server{{scopes: []*scope{outer}}}
	}
	return nil
}

// foreign lists the limits of a block that is not about HTTP.
func (n *nginx) foreign(d *directive) {
	for _, c := range d.block {
		if strings.HasPrefix(c.name, "limit_") {
			n.list(c.place, c.String(), "Weir limits HTTP, and this is of a %s block", d.name)
		}
		if c.isBlock() {
			n.foreign(&directive{name: d.name, block: c.block})
		}
	}
}

// level reads what a block says of limits into s. What it does not say is as in the
// block around it.
func (n *nginx) level(block []*directive, s, around *scope) error {
	s.setting = around.setting
	var req, conn []use
	for _, d := range block {
		var err error
		switch d.name {
		case "limit_req":
			req, err = n.use(d, req)
		case "limit_conn":
			conn, err = n.use(d, conn)
		case "limit_req_status":
			s.setting.status, err = status(d)
		case "limit_conn_status":
			s.setting.connStatus, err = status(d)
		case "limit_req_dry_run":
			s.setting.dry, err = flag(d)
		case "limit_conn_dry_run":
			s.setting.connDry, err = flag(d)
		case "return":
			s.answers = true
		default:
			n.other(d)
		}
		if err != nil {
			return err
		}
	}
	if req == nil {
		req = slices.DeleteFunc(slices.Clone(around.uses), func(u use) bool { return u.zone.conn })
	}
	if conn == nil {
		conn = slices.DeleteFunc(slices.Clone(around.uses), func(u use) bool { return !u.zone.conn })
	}
	s.uses = slices.Concat(req, conn)
	return nil
}

// other looks at what limits, or says who is limited, in another way.
func (n *nginx) other(d *directive) {
	switch d.name {
	case "limit_req_zone", "limit_conn_zone", "limit_except":
	case "limit_req_log_level", "limit_conn_log_level":
		n.tell("differs: " + d.name + " is left out: Weir logs denials at its own level, and counts them in its metrics.")
	case "limit_rate", "limit_rate_after":
		n.list(d.place, d.String(), "Weir limits requests, not bandwidth")
	case "set_real_ip_from":
		n.list(d.place, d.String(), "say it as gateway.trusted_proxies, or everybody behind that proxy is one client")
	case "real_ip_header", "real_ip_recursive":
		n.list(d.place, d.String(), "say it as gateway.client_header, with gateway.trusted_proxies")
	case "if":
		for _, c := range d.block {
			if c.name == "limit_req" || c.name == "limit_conn" {
				n.list(c.place, c.String(), "nginx does not allow it in an if block")
				continue
			}
			n.other(c)
		}
	default:
		if strings.HasPrefix(d.name, "limit_") {
			n.list(d.place, d.String(), "not a directive of nginx itself")
		}
	}
}

// tell puts a comment at the top of the file, once.
func (n *nginx) tell(text string) {
	if !n.told[text] {
		n.told[text] = true
		n.head = append(n.head, text)
	}
}

// server reads a server block and the locations in it.
func (n *nginx) server(d *directive, around *scope) (*server, error) {
	s := newServer(d)
	top := &scope{location: &location{}, at: d.place}
	if err := n.level(d.block, top, around); err != nil {
		return nil, err
	}
	if top.answers {
		n.answered(d.block)
		return s, nil
	}
	s.scopes = append(s.scopes, top)
	err := n.locations(d.block, top, s)
	for _, o := range s.scopes {
		if o.kind == prefix && o.pattern == "/" {
			top.unmatched = true // every path gets there
		}
	}
	return s, err
}

// answered tells of limits that nginx never gets to.
func (n *nginx) answered(block []*directive) {
	for _, d := range block {
		if d.name == "limit_req" || d.name == "limit_conn" {
			n.tell(fmt.Sprintf("%s: %s: nginx answers with return before it limits, so this limits nothing there, and nothing was made of it.", d.place, d))
		}
	}
}

func (n *nginx) locations(block []*directive, around *scope, s *server) error {
	for _, d := range find(block, "location") {
		if !d.isBlock() {
			continue
		}
		l, err := newLocation(d, around.location)
		if err != nil {
			return err
		}
		l.order = len(s.scopes)
		one := &scope{location: l, at: d.place}
		if err := n.level(d.block, one, around); err != nil {
			return err
		}
		if one.answers {
			n.answered(d.block)
			one.uses = nil
		}
		if l.kind == named {
			one.unmatched = true
			for _, c := range d.block {
				if c.name == "limit_req" || c.name == "limit_conn" {
					n.list(c.place, c.String(), "location %s is reached from within nginx, and not by a path", l.pattern)
				}
			}
		}
		s.scopes = append(s.scopes, one)
		if err := n.locations(d.block, one, s); err != nil {
			return err
		}
	}
	return nil
}

// write makes a policy of each group of places.
func (n *nginx) write() {
	for _, s := range n.servers {
		for _, o := range s.scopes {
			if o.unmatched {
				continue
			}
			for _, u := range o.uses {
				n.group(s, o, u)
			}
		}
	}
	shared := map[*zone]int{}
	for _, g := range n.order {
		shared[g.use.zone]++
	}
	for _, g := range n.order {
		n.policy(g, shared[g.use.zone] > 1)
	}
}

func (n *nginx) group(s *server, o *scope, u use) {
	set := o.setting
	if u.zone.conn {
		set = setting{connStatus: set.connStatus, connDry: set.connDry}
	} else {
		set = setting{status: set.status, dry: set.dry}
	}
	name := ""
	if strings.Contains(u.zone.key, "$server_name") || strings.Contains(u.zone.key, "${server_name") {
		name = s.name()
	}
	id := fmt.Sprint(u.zone.name, " ", u.zone.conn, u.n, u.burst, u.delay, set, name)
	g := n.groups[id]
	if g == nil {
		g = &group{use: u, setting: set, name: name, scopes: map[*scope]bool{}}
		n.groups[id] = g
		n.order = append(n.order, g)
	}
	g.scopes[o] = true
}

// policy makes a policy of a group.
func (n *nginx) policy(g *group, shared bool) {
	u := g.use
	d := draft{at: u.place, from: fmt.Sprintf("%s; of %s: %s", u, u.zone.place, u.zone.text), name: u.zone.name}
	if shared {
		d.differs("", "nginx shares the state of zone %s between all places that name it; here each policy has its own.", u.zone.name)
	}
	if !n.where(&d, g) {
		return // nothing is left of it, and that has been listed
	}
	if why := key(&d, u.zone, g.name); why != "" {
		n.list(u.place, u.String(), "the key of its zone is %s (%s): %s", short(u.zone.key), u.zone.place, why)
		return
	}
	if slices.Contains(d.key, "client.ip/128") {
		n.tell("client.ip/128 counts every IPv6 address by itself, as nginx does. A client has a whole network of them: client.ip, without /128, counts that as one.")
	}
	limits(&d, u)
	d.status = g.setting.status
	if u.zone.conn {
		d.status = g.setting.connStatus
	}
	if g.setting.dry || g.setting.connDry {
		d.mode = "shadow"
	}
	n.add(d)
}

// limits says the limit of a use.
func limits(d *draft, u use) {
	if u.zone.conn {
		d.limits = []string{fmt.Sprintf("%d concurrency", u.n)}
		d.differs("limits", "a slot is held while a request runs, also on a connection that carries several; one that nobody renews is free after a minute.")
		return
	}
	text := fmt.Sprintf("%d/%s leaky_bucket", u.zone.count, u.zone.per)
	if u.burst > 0 {
		text += fmt.Sprintf(" burst %d", u.burst)
		switch {
		case u.delay < 0:
			text += " nodelay"
		case u.delay >= u.burst:
			text += " nodelay"
			d.notes = append(d.notes, note{"limits", fmt.Sprintf("delay=%d is not below burst=%d, so nothing is ever delayed: nodelay says the same.", u.delay, u.burst)})
		case u.delay > 0:
			text += fmt.Sprintf(" delay %d", u.delay)
		default:
			text += " queue"
		}
	}
	d.limits = []string{text + " nginx"}
	if u.zone.sync {
		d.notes = append(d.notes, note{"limits", "sync: processes that have one store share their counts."})
	}
}
