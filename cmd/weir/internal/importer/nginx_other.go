package importer

import (
	"fmt"
	"strings"

	"github.com/floodweir/weir/cmd/weir/internal/nginxconf"
)

// others looks at all that does not become a policy: what limits, or says who is
// limited, in another way, and limits that no request comes to.
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

// foreign lists the limits of a block that is not about HTTP.
func (n *nginx) foreign(d *nginxconf.Directive) {
	for _, c := range d.Block {
		if strings.HasPrefix(c.Name, "limit_") {
			n.list(of(c), c.String(), "Weir limits HTTP, and this is of a %s block", d.Name)
		}
		if c.IsBlock() {
			n.foreign(&nginxconf.Directive{Name: d.Name, Block: c.Block})
		}
	}
}

// block looks at what stands in a block, beside what policies are made of, and not in
// the blocks within it.
func (n *nginx) block(block []*nginxconf.Directive) {
	for _, d := range block {
		switch d.Name {
		case "limit_req", "limit_req_status", "limit_req_dry_run", "limit_conn", "limit_conn_status", "limit_conn_dry_run":
		default:
			n.other(d)
		}
	}
}

// other looks at what limits, or says who is limited, in another way.
func (n *nginx) other(d *nginxconf.Directive) {
	switch d.Name {
	case "limit_req_zone", "limit_conn_zone", "limit_except":
	case "limit_req_log_level", "limit_conn_log_level":
		n.tell("differs: " + d.Name + " is left out: Weir logs denials at its own level, and counts them in its metrics.")
	case "limit_rate", "limit_rate_after":
		n.list(of(d), d.String(), "Weir limits requests, not bandwidth")
	case "set_real_ip_from":
		n.list(of(d), d.String(), "say it as gateway.trusted_proxies, or everybody behind that proxy is one client")
	case "real_ip_header", "real_ip_recursive":
		n.list(of(d), d.String(), "say it as gateway.client_header, with gateway.trusted_proxies")
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

// answered tells of limits that nginx never gets to.
func (n *nginx) answered(block []*nginxconf.Directive) {
	for _, d := range block {
		if d.Name == "limit_req" || d.Name == "limit_conn" {
			n.tell(fmt.Sprintf("%s: %s: nginx answers with return before it limits, so this limits nothing there, and nothing was made of it.", of(d), d))
		}
	}
}

// named lists the limits of a location with a name.
func (n *nginx) named(o *nginxconf.Scope) {
	for _, c := range o.Directive.Block {
		if c.Name == "limit_req" || c.Name == "limit_conn" {
			n.list(of(c), c.String(), "location %s is reached from within nginx, and not by a path", o.Pattern)
		}
	}
}
