package nginxconf

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// This file reads the arguments of directives, and refuses what nginx refuses.

// A Zone is the shared memory in which nginx counts.
type Zone struct {
	Directive *Directive // limit_req_zone or limit_conn_zone
	Name      string
	Key       string // a text with variables in it
	Conn      bool   // of limit_conn
	Count     int64  // of limit_req: requests, from 1
	Per       string // of limit_req: s or m
	Sync      bool
}

var variable = regexp.MustCompile(`\$(?:\{([a-zA-Z0-9_]+)\}|([a-zA-Z0-9_]+))`)

// Variables returns the names of the variables in the key, in lower case and in order,
// and the text beside them.
func (z *Zone) Variables() (names []string, literal string) {
	for _, m := range variable.FindAllStringSubmatch(z.Key, -1) {
		names = append(names, strings.ToLower(m[1]+m[2]))
	}
	return names, variable.ReplaceAllString(z.Key, "")
}

// A Use is a limit_req or limit_conn that applies.
type Use struct {
	Directive *Directive
	Zone      *Zone
	N         int64 // limit_conn: how many
	Burst     int64
	Delay     int64 // -1: nodelay
}

// A Setting holds the other settings of limits at a level, each of which is inherited
// on its own.
type Setting struct {
	Status, ConnStatus int
	Dry, ConnDry       bool
}

// zone reads limit_req_zone and limit_conn_zone.
func (h *HTTP) zone(d *Directive) error {
	z := &Zone{Directive: d, Conn: d.Name == "limit_conn_zone"}
	if len(d.Args) < 2 {
		return d.errorf("want a key, and zone=NAME:SIZE")
	}
	z.Key = d.Args[0]
	for _, a := range d.Args[1:] {
		if err := z.parameter(d, a); err != nil {
			return err
		}
	}
	switch before := h.zones[z.Name]; {
	case z.Name == "":
		return d.errorf("want zone=NAME:SIZE")
	case z.Count == 0 && !z.Conn:
		return d.errorf("want a rate such as rate=10r/s")
	case before != nil:
		return d.errorf("zone %q is there already, at %s", z.Name, before.Directive.place())
	}
	h.zones[z.Name] = z
	return nil
}

// parameter reads one argument of a zone, after its key.
func (z *Zone) parameter(d *Directive, a string) error {
	name, value, _ := strings.Cut(a, "=")
	switch {
	case name == "zone":
		zone, size, ok := strings.Cut(value, ":")
		if !ok || zone == "" || !isSize(size) {
			return d.errorf("%q: want zone=NAME:SIZE, such as zone=one:10m", a)
		}
		z.Name = zone
	case name == "rate" && !z.Conn:
		count, per := strings.CutSuffix(value, "r/s")
		z.Per = "s"
		if !per {
			count, per = strings.CutSuffix(value, "r/m")
			z.Per = "m"
		}
		c, err := strconv.ParseInt(count, 10, 32)
		if err != nil || c < 1 || !per {
			return d.errorf("%q: want a rate such as 10r/s or 30r/m", a)
		}
		z.Count = c
	case a == "sync" && !z.Conn:
		z.Sync = true
	default:
		return d.errorf("%q: no such parameter", a)
	}
	return nil
}

func isSize(s string) bool {
	s = strings.TrimRight(s, "kKmM")
	n, err := strconv.ParseInt(s, 10, 64)
	return err == nil && n > 0
}

// use reads limit_req and limit_conn and appends it to the others of its level.
func (h *HTTP) use(d *Directive, before []Use) ([]Use, error) {
	u := Use{Directive: d}
	conn := d.Name == "limit_conn"
	name := ""
	for i, a := range d.Args {
		key, value, _ := strings.Cut(a, "=")
		v, err := strconv.ParseInt(value, 10, 64)
		switch {
		case conn && i == 0:
			name = a
		case conn && i == 1:
			if u.N, err = strconv.ParseInt(a, 10, 32); err != nil || u.N < 1 || u.N > 65535 {
				return nil, d.errorf("%q: want a number of connections from 1 to 65535", a)
			}
		case key == "zone" && !conn:
			name = value
		case key == "burst" && !conn:
			if u.Burst = v; err != nil || v < 1 {
				return nil, d.errorf("%q: want burst=N with N from 1 on", a)
			}
		case key == "delay" && !conn:
			if u.Delay = v; err != nil || v < 1 {
				return nil, d.errorf("%q: want delay=N with N from 1 on", a)
			}
		case a == "nodelay" && !conn:
			u.Delay = -1
		default:
			return nil, d.errorf("%q: no such parameter", a)
		}
	}
	u.Zone = h.zones[name]
	switch {
	case name == "":
		return nil, d.errorf("want the name of a zone")
	case conn && u.N == 0:
		return nil, d.errorf("want a number of connections")
	case u.Zone == nil:
		return nil, d.errorf("there is no zone %q", name)
	case u.Zone.Conn != conn:
		return nil, d.errorf("zone %q, at %s, is of another kind", name, u.Zone.Directive.place())
	case slices.ContainsFunc(before, func(o Use) bool { return o.Zone == u.Zone }):
		return nil, d.errorf("zone %q is named twice at one level", name)
	}
	return append(before, u), nil
}

func status(d *Directive) (int, error) {
	if len(d.Args) == 1 {
		if n, err := strconv.Atoi(d.Args[0]); err == nil && n >= 400 && n <= 599 {
			return n, nil
		}
	}
	return 0, d.errorf("want a status from 400 to 599")
}

func flag(d *Directive) (bool, error) {
	if len(d.Args) == 1 {
		switch strings.ToLower(d.Args[0]) {
		case "on":
			return true, nil
		case "off":
			return false, nil
		}
	}
	return false, d.errorf("want on or off")
}
