package importer

import (
	"fmt"
	"strings"

	"github.com/floodweir/weir/cmd/weir/internal/nginxconf"
)

// others lists everything that does not become a policy: other kinds of limits and
// client addresses, and limits that no request reaches.
func (n *nginx) others(root []*nginxconf.Directive) {
	for _, d := range root {
		if (d.Name == "stream" || d.Name == "mail") && d.IsBlock() {
			n.foreign(d)
		}
	}
	n.block(n.http.Block)
	for _, s := range n.http.Servers {
		if s.Directive == nil {
			continue
		}
		if s.Answers {
			n.block(s.Directive.Block)
			n.answered(s.Directive.Block)
		}
		for _, o := range s.Scopes {
			n.block(o.Directive.Block)
			if o.Answers {
				n.answered(o.Directive.Block)
			}
			if o.Kind == nginxconf.Named {
				n.named(o)
			}
		}
	}
}

// foreign lists the limits of a block for another protocol than HTTP.
func (n *nginx) foreign(d *nginxconf.Directive) {
	for _, c := range d.Block {
		if strings.HasPrefix(c.Name, "limit_") {
			n.list(of(c), c.String(), "Weir limits HTTP only, and this is in a %s block", d.Name)
		}
		if c.IsBlock() {
			n.foreign(&nginxconf.Directive{Name: d.Name, Block: c.Block})
		}
	}
}

// block lists the other directives of a block, without the blocks within it.
func (n *nginx) block(block []*nginxconf.Directive) {
	for _, d := range block {
		switch d.Name {
		case "limit_req", "limit_req_status", "limit_req_dry_run", "limit_conn", "limit_conn_status", "limit_conn_dry_run":
		default:
			n.other(d)
		}
	}
}

// other lists a directive that limits, or identifies clients, in another way.
func (n *nginx) other(d *nginxconf.Directive) {
	switch d.Name {
	case "limit_req_zone", "limit_conn_zone", "limit_except":
	case "limit_req_log_level", "limit_conn_log_level":
		n.remark("differs: " + d.Name + " is omitted: Weir logs denials at its own level, and counts them in its metrics.")
	case "limit_rate", "limit_rate_after":
		n.list(of(d), d.String(), "Weir limits requests, not bandwidth")
	case "set_real_ip_from":
		n.list(of(d), d.String(), "set gateway.trusted_proxies; otherwise all clients behind that proxy share a bucket")
	case "real_ip_header", "real_ip_recursive":
		n.list(of(d), d.String(), "set gateway.client_header and gateway.trusted_proxies")
	case "if":
		for _, c := range d.Block {
			if c.Name == "limit_req" || c.Name == "limit_conn" {
				n.list(of(c), c.String(), "nginx does not allow it in an if block")
				continue
			}
			n.other(c)
		}
	default:
		if strings.HasPrefix(d.Name, "limit_") {
			n.list(of(d), d.String(), "not a directive of nginx itself")
		}
	}
}

// answered remarks on limits that nginx never evaluates.
func (n *nginx) answered(block []*nginxconf.Directive) {
	for _, d := range block {
		if d.Name == "limit_req" || d.Name == "limit_conn" {
			n.remark(fmt.Sprintf("%s: %s: nginx evaluates return before limits, so this has no effect there and was not imported.", of(d), d))
		}
	}
}

// named lists the limits of a named location.
func (n *nginx) named(o *nginxconf.Scope) {
	for _, c := range o.Directive.Block {
		if c.Name == "limit_req" || c.Name == "limit_conn" {
			n.list(of(c), c.String(), "location %s has no path: requests reach it by an internal redirect", o.Pattern)
		}
	}
}
