package importer

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// This file reads the arguments of directives, and refuses what nginx refuses.

func (d *directive) errorf(format string, args ...any) error {
	return &Error{d.file, d.line, fmt.Sprintf("%s: %s", d, fmt.Sprintf(format, args...))}
}

// zone reads limit_req_zone and limit_conn_zone.
func (n *nginx) zone(d *directive) error {
	z := &zone{place: d.place, text: d.String(), conn: d.name == "limit_conn_zone"}
	if len(d.args) < 2 {
		return d.errorf("want a key, and zone=NAME:SIZE")
	}
	z.key = d.args[0]
	for _, a := range d.args[1:] {
		name, value, _ := strings.Cut(a, "=")
		switch {
		case name == "zone":
			zone, size, ok := strings.Cut(value, ":")
			if !ok || zone == "" || !isSize(size) {
				return d.errorf("%q: want zone=NAME:SIZE, such as zone=one:10m", a)
			}
			z.name = zone
		case name == "rate" && !z.conn:
			count, per := strings.CutSuffix(value, "r/s")
			z.per = "s"
			if !per {
				count, per = strings.CutSuffix(value, "r/m")
				z.per = "m"
			}
			c, err := strconv.ParseInt(count, 10, 32)
			if err != nil || c < 1 || !per {
				return d.errorf("%q: want a rate such as 10r/s or 30r/m", a)
			}
			z.count = c
		case a == "sync" && !z.conn:
			z.sync = true
		default:
			return d.errorf("%q: no such parameter", a)
		}
	}
	switch {
	case z.name == "":
		return d.errorf("want zone=NAME:SIZE")
	case z.count == 0 && !z.conn:
		return d.errorf("want a rate such as rate=10r/s")
	case n.zones[z.name] != nil:
		return d.errorf("zone %q is there already, at %s", z.name, n.zones[z.name].place)
	}
	n.zones[z.name] = z
	return nil
}

func isSize(s string) bool {
	s = strings.TrimRight(s, "kKmM")
	n, err := strconv.ParseInt(s, 10, 64)
	return err == nil && n > 0
}

// use reads limit_req and limit_conn, and adds it to those of its level.
func (n *nginx) use(d *directive, before []use) ([]use, error) {
	u := use{directive: d}
	conn := d.name == "limit_conn"
	name := ""
	for i, a := range d.args {
		key, value, _ := strings.Cut(a, "=")
		v, err := strconv.ParseInt(value, 10, 64)
		switch {
		case conn && i == 0:
			name = a
		case conn && i == 1:
			if u.n, err = strconv.ParseInt(a, 10, 32); err != nil || u.n < 1 || u.n > 65535 {
				return nil, d.errorf("%q: want a number of connections from 1 to 65535", a)
			}
		case key == "zone" && !conn:
			name = value
		case key == "burst" && !conn:
			if u.burst = v; err != nil || v < 1 {
				return nil, d.errorf("%q: want burst=N with N from 1 on", a)
			}
		case key == "delay" && !conn:
			if u.delay = v; err != nil || v < 1 {
				return nil, d.errorf("%q: want delay=N with N from 1 on", a)
			}
		case a == "nodelay" && !conn:
			u.delay = -1
		default:
			return nil, d.errorf("%q: no such parameter", a)
		}
	}
	u.zone = n.zones[name]
	switch {
	case name == "":
		return nil, d.errorf("want the name of a zone")
	case conn && u.n == 0:
		return nil, d.errorf("want a number of connections")
	case u.zone == nil:
		return nil, d.errorf("there is no zone %q", name)
	case u.zone.conn != conn:
		return nil, d.errorf("zone %q, at %s, is of another kind", name, u.zone.place)
	case slices.ContainsFunc(before, func(o use) bool { return o.zone == u.zone }):
		return nil, d.errorf("zone %q is named twice at one level", name)
	}
	return append(before, u), nil
}

func status(d *directive) (int, error) {
	if len(d.args) == 1 {
		if n, err := strconv.Atoi(d.args[0]); err == nil && n >= 400 && n <= 599 {
			return n, nil
		}
	}
	return 0, d.errorf("want a status from 400 to 599")
}

func flag(d *directive) (bool, error) {
	if len(d.args) == 1 {
		switch strings.ToLower(d.args[0]) {
		case "on":
			return true, nil
		case "off":
			return false, nil
		}
	}
	return false, d.errorf("want on or off")
}

var variable = regexp.MustCompile(`\$(?:\{([a-zA-Z0-9_]+)\}|([a-zA-Z0-9_]+))`)

// key says the key of a zone, or why it cannot be said.
func key(d *draft, z *zone, serverName string) (why string) {
	var present []string // conditions, of which one has to hold for the key not to be empty
	always := false      // it is never empty
	seen := map[string]bool{}
	part := func(p string) {
		if !seen[p] {
			seen[p] = true
			d.key = append(d.key, p)
		}
	}
	for _, m := range variable.FindAllStringSubmatch(z.key, -1) {
		name := strings.ToLower(m[1] + m[2])
		source, of, _ := strings.Cut(name, "_")
		switch {
		case name == "binary_remote_addr" || name == "remote_addr":
			part("client.ip/128")
			always = true
		case name == "server_name":
			if serverName != "" {
				part("const:" + serverName)
			}
			always = true
		case name == "host" || name == "http_host":
			if d.hosts != nil {
				part("host")
			} else {
				part("cel:request.host")
				d.notes = append(d.notes, note{"key", "a client may send any host, and each is a bucket: name yours in match.hosts."})
			}
			always = true
		case name == "request_method":
			part("method")
			always = true
		case source == "http" && of != "":
			header := canonical(of)
			part("header:" + header)
			present = append(present, fmt.Sprintf("request.headers[%s] != \"\"", cel(strings.ToLower(header))))
		case source == "arg" && of != "":
			part("query:" + of)
			present = append(present, fmt.Sprintf("request.query[%s] != \"\"", cel(of)))
		case source == "cookie" && of != "":
			part("cookie:" + of)
			present = append(present, fmt.Sprintf("request.cookies[%s] != \"\"", cel(of)))
		case strings.HasPrefix(name, "jwt_claim_") && len(name) > len("jwt_claim_"):
			part("claim:" + strings.TrimPrefix(name, "jwt_claim_"))
			always = true
			d.differs("key", "the token is read and not verified: something in front has to do that, as nginx's auth_jwt did.")
		case name == "uri" || name == "request_uri" || name == "document_uri" || name == "args" || name == "query_string" || name == "request":
			return "what a client can spell in many ways is no key: name the paths in match.paths, and take the part path"
		default:
			return fmt.Sprintf("Weir does not know $%s. If it comes of a map, geo or set, say what that decides as match.where, or as a part cel:TEXT of the key", name)
		}
	}
	if literal := variable.ReplaceAllString(z.key, ""); len(d.key) == 0 {
		if literal == "" {
			literal = "all" // of one server
		}
		part("const:" + literal)
		always = true
	} else if literal != "" {
		always = true
	}
	if !always && len(present) > 0 {
		d.where = append(d.where, either(present))
		d.notes = append(d.notes, note{"match", "as in nginx, a request without a value for the key is not limited. Without that condition all of those would share one bucket."})
	}
	return ""
}

// canonical is the name of a header of which nginx's variable is the given one.
func canonical(name string) string {
	words := strings.Split(name, "_")
	for i, w := range words {
		if w != "" {
			words[i] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "-")
}
