package weirfile

import (
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/weirfile/internal/grammar"
	"github.com/floodweir/weir/weirfile/strict"
)

// store reads the store. Errors do not quote a URL that contains an @, nor its
// parameters, since it may contain a password.
func (d *decoder) store(p place) string {
	s, ok := d.text(p)
	if !ok || s == "memory" {
		return s
	}
	// Its parameters may name certificate files, which are not opened here.
	address, _, _ := strings.Cut(s, "?")
	if !strings.ContainsAny(s, " \t\n\r") && (isPostgres(address) || isRedis(address)) {
		return s
	}
	scheme, _, isURL := strings.Cut(s, "://")
	shown := strict.Quoted(address)
	if strings.Contains(s, "@") {
		shown = strict.Quoted(scheme+"://") + "…"
		if !isURL {
			shown = "a text with an @ in it"
		}
	}
	d.failIn(p, shown, "%s", p.shape.Want)
	return ""
}

func isRedis(address string) bool {
	_, err := redisstore.ParseURL(address)
	return err == nil
}

// isPostgres reports whether an address names a database of PostgreSQL.
func isPostgres(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql") && len(u.Path) > 1 && u.Opaque == ""
}

func (d *decoder) failover(p place, f *Failover) {
	if !p.there() {
		return
	}
	m := d.mapping(p)
	f.Deadline = d.duration(m.at("deadline"))
	f.Nodes = int(d.integer(m.at("nodes")))
	f.StartDegraded = d.boolean(m.at("start_degraded"))
}

func (d *decoder) http(p place, h *HTTP) {
	if !p.there() {
		return
	}
	m := d.mapping(p)
	h.Listen = d.listen(m.at("listen"))
	d.client(m, &h.Client)
	h.Serve, _ = d.word(m.at("serve"))
	for _, e := range d.elements(m.at("hosts")) {
		s, ok := d.text(e)
		switch {
		case !ok:
		case s == "" || strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789._-") != "":
			d.failIn(e, strict.Quoted(s), "%s", e.shape.Want)
		default:
			h.Hosts = append(h.Hosts, strings.ToLower(s))
		}
	}
}

func (d *decoder) grpc(p place, g *GRPC) {
	if !p.there() {
		return
	}
	m := d.mapping(p)
	g.Listen = d.listen(m.at("listen"))
	if s, ok := d.text(m.at("config")); ok {
		g.Config = s
		if !filepath.IsAbs(s) {
			g.Config = filepath.Join(filepath.Dir(d.Name()), s)
		}
	}
	mode, _ := d.word(m.at("on_store_error"))
	g.OnStoreError = policy.FailMode(mode)
	g.ResponseHeaders = d.boolean(m.at("response_headers"))
	g.DynamicMetadata = d.boolean(m.at("dynamic_metadata"))
	g.Shadow = d.boolean(m.at("shadow_mode"))
	g.Quota = d.boolean(m.at("quota_mode"))
	g.MergeDomains = d.boolean(m.at("merge_domains"))
	d.quotaService(m.at("quota_service"), &g.QuotaService)
}

func (d *decoder) quotaService(p place, q *QuotaService) {
	if !p.there() {
		return
	}
	m := d.mapping(p)
	for _, e := range d.elements(m.at("domains")) {
		if s, ok := d.text(e); ok {
			q.Domains = append(q.Domains, s)
		}
	}
	ttl := m.at("ttl")
	if q.TTL = d.duration(ttl); q.TTL%time.Second != 0 {
		d.failIn(ttl, ttl.node.String(), "want whole seconds such as 15s: Envoy cuts off the rest")
	}
	switch after := m.at("after_expiry"); {
	case !after.there():
	case after.node.Kind() == strict.Map:
		after.shape = after.shape.As(grammar.Map)
		q.Reuse = d.duration(d.mapping(after).at("reuse"))
	default:
		after.shape = after.shape.As(grammar.Word)
		word, _ := d.word(after)
		q.Allow = word == "allow"
	}
}

func (d *decoder) listener(p place, l *Listener) {
	if p.there() {
		l.Listen = d.listen(d.mapping(p).at("listen"))
	}
}

func (d *decoder) admin(p place, a *Admin) {
	if p.there() {
		m := d.mapping(p)
		a.Listen = d.listen(m.at("listen"))
		d.client(m, &a.Client)
	}
}

// listen reads the address of a listener.
func (d *decoder) listen(p place) string {
	s, ok := d.text(p)
	if !ok || s == "off" {
		return s
	}
	host, port, err := net.SplitHostPort(s)
	number, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || bad != nil || strconv.FormatUint(number, 10) != port || strings.ContainsAny(host, " \t\n\r/@?#") {
		d.failIn(p, strict.Quoted(s), "%s", p.shape.Want)
		return ""
	}
	return s
}

// client reads the proxies that are trusted for the client's address, and their header.
func (d *decoder) client(m mapping, c *httplimit.ClientAddress) {
	d.trusted(m.at("trusted_proxies"), c)
	p := m.at("client_header")
	switch word, ok := d.word(p); {
	case !ok:
	case !m.at("trusted_proxies").there():
		d.failIn(p, strict.Quoted(p.node.Text()), "want %s too: the header is read only from trusted proxies", strict.Join(m.field, "trusted_proxies"))
	case word == "forwarded":
		c.Header = "Forwarded"
	default:
		c.Header = "X-Forwarded-For"
	}
}

func (d *decoder) trusted(p place, c *httplimit.ClientAddress) {
	for _, e := range d.elements(p) {
		s, ok := d.text(e)
		if !ok {
			continue
		}
		if s == "unix" {
			c.TrustUnix = true
			continue
		}
		prefix, err := netip.ParsePrefix(s)
		if err != nil {
			a, err := netip.ParseAddr(s)
			if err != nil || a.Zone() != "" {
				d.failIn(e, strict.Quoted(s), "%s", e.shape.Want)
				continue
			}
			prefix = netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen())
		}
		if prefix.Addr().Is4In6() {
			d.failIn(e, strict.Quoted(s), "want the prefix as IPv4")
			continue
		}
		if prefix != prefix.Masked() {
			d.failIn(e, strict.Quoted(s), "want a prefix without bits beyond its length: %s", prefix.Masked())
			continue
		}
		c.Trusted = append(c.Trusted, prefix)
	}
}
