package weirfile

import (
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile/strict"
)

// nginx reads limit_req or limit_conn in nginx's terms, after all other fields of the policy.
func (r *policyReader) nginx(p place, c *policy.Config) {
	if !p.there() {
		return
	}
	before := len(r.Faults())
	m := r.mapping(p)
	if p.node.Kind() != strict.Map {
		c.Limits = validLimit()
		return
	}
	for _, name := range m.Order {
		r.record(m.at(name))
	}
	said := func(field string) bool { return r.places[field].There() }
	if said("limits") {
		r.failIn(p, "", "want limits or nginx, not both")
	}
	c.Zone, _ = r.text(m.at("zone"))
	l := r.nginxLimit(p, m, c.Zone != "")
	r.nginxMode(m.at("dry_run"), said("mode"), c)
	switch status := m.at("status"); {
	case !status.there():
		if c.OnDenied.Redirect == "" && !said("on_denied.status") {
			c.OnDenied.Status = 503 // as limit_req_status says it
		}
	case said("on_denied.status"):
		r.failIn(status, status.node.String(), "want nginx.status or on_denied.status, not both: they are the same")
	case said("on_denied.redirect"):
		r.failIn(status, status.node.String(), "want nginx.status or on_denied.redirect, not both: who is redirected gets the status of that")
	default:
		c.OnDenied.Status = int(r.integer(status))
	}
	for _, field := range []string{"limits", "limits[0]"} { // what package policy says of the limit is said here
		r.places[field] = p.node
	}
	if len(r.Faults()) > before {
		c.Limits = validLimit()
		return
	}
	limit, err := weir.NewLimit(l)
	if err != nil {
		name, want := "rate", plainError(err, "")
		if strings.HasPrefix(want, "burst ") {
			name = "burst"
		}
		_, want, _ = strings.Cut(want, ": ") // the value stands before it
		r.failIn(m.at(name), m.Values[name].String(), "%s", want)
		c.Limits = validLimit()
		return
	}
	c.Limits = []weir.Limit{limit}
}

// nginxLimit reads the fields of limit_conn, or of limit_req.
func (r *policyReader) nginxLimit(p place, m mapping, shared bool) weir.LimitConfig {
	if n := m.at("connections"); n.there() {
		for _, name := range []string{"rate", "burst", "nodelay", "delay", "exact"} {
			if other := m.at(name); other.there() {
				r.failIn(other, other.node.String(), "want nginx.connections or nginx.%s, not both: limit_conn has none", name)
			}
		}
		return weir.Concurrency{Count: r.integer(n), Shared: shared}
	}
	l := weir.LeakyBucket{Nginx: true, Burst: r.integer(m.at("burst")), Shared: shared}
	rate := m.at("rate")
	if !rate.there() {
		if len(m.Order) > 0 { // an empty map is a fault already
			r.Fail(p.node, strict.Join(p.field, "rate"), "", "want a rate as nginx writes it, such as 10r/s or 6r/m; or connections")
		}
		return l
	}
	l.Count, l.Period = r.nginxRate(rate)
	if e := m.at("exact"); e.there() {
		l.Nginx = !r.boolean(e)
	}
	// Without nodelay and delay, requests within the burst are delayed.
	nodelay, delay := m.at("nodelay"), m.at("delay")
	at := nodelay.there() && r.boolean(nodelay)
	if nodelay.there() && delay.there() {
		r.failIn(delay, delay.node.String(), "want nginx.nodelay or nginx.delay, not both")
		return l
	}
	l.QueueFree = r.integer(delay)
	l.Queue = !at && l.QueueFree < l.Burst
	if !l.Queue {
		l.QueueFree = 0 // nothing is ever delayed
	}
	return l
}

// validLimit replaces limits that have a fault, so that package policy finds other
// faults.
func validLimit() []weir.Limit { return []weir.Limit{weir.MustLimit("1099511627776/s")} }

// nginxRate reads 10r/s or 6r/m.
func (r *policyReader) nginxRate(p place) (count int64, period time.Duration) {
	text, ok := r.scalar(p, p.shape.Want)
	if !ok {
		return 0, 0
	}
	period = time.Second
	number, whole := strings.CutSuffix(text, "r/s")
	if !whole {
		period = time.Minute
		number, whole = strings.CutSuffix(text, "r/m")
	}
	count, err := strconv.ParseInt(number, 10, 64)
	if !whole || err != nil || count < 1 || number[0] == '+' || p.node.Kind() != strict.Text {
		r.failIn(p, p.node.String(), "%s", p.shape.Want)
	}
	return count, period
}

func (r *policyReader) nginxMode(p place, mode bool, c *policy.Config) {
	switch {
	case !p.there():
	case mode:
		r.failIn(p, p.node.String(), "want nginx.dry_run or mode, not both: dry_run is mode: shadow")
	case r.boolean(p):
		c.Mode = policy.Shadow
	}
}
