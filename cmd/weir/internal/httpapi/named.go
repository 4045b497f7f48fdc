package httpapi

import (
	"fmt"
	"net/netip"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// A named policy makes requests from the parts of its key, with the very keys
// that a gateway makes from a request.
type named struct {
	name  string
	parts []policy.KeyPart // those that a client has to give: all but constants
	cost  int64
	set   *policy.Set
}

func newNamed(p *policy.Policy) (*named, error) {
	c := p.Config()
	n := &named{name: c.Name, cost: c.Cost}
	match := policy.Match{}
	for _, part := range c.Key {
		if part.Source == policy.Path {
			match.Paths = c.Match.Paths // the pattern that matches is the key
		}
		if part.Source == policy.Host {
			match.Hosts = c.Match.Hosts
		}
		if part.Source != policy.Constant {
			n.parts = append(n.parts, part)
		}
	}
	c.Match = match
	c.Mode = policy.Enforce // a question about a policy is answered, whatever its mode
	asked, err := policy.New(c)
	if err != nil {
		return nil, err
	}
	n.set, err = policy.NewSet(asked)
	return n, err
}

// requests are those of the policy's limits for a key with the given parts.
func (n *named) requests(key []string) ([]weir.Request, error) {
	if len(key) != len(n.parts) && !(len(n.parts) == 0 && len(key) == 1) {
		return nil, refuse("key", []byte(partsOf(len(key))), fmt.Sprintf("%s, as policy %s has", partsOf(len(n.parts)), n.name))
	}
	a := parts{n.parts, key}
	for i, p := range n.parts {
		if p.Source == policy.ClientIP && !a.ClientIP().IsValid() {
			return nil, refuse(fmt.Sprintf("key[%d]", i), []byte(key[i]), "an IP address")
		}
	}
	var q policy.Questions
	n.set.Ask(&q, a)
	if len(q.Requests) == 0 {
		return nil, refuse("key", fmt.Appendf(nil, "%q", key), "a key that policy "+n.name+" matches")
	}
	return q.Requests, nil
}

func partsOf(n int) string {
	if n == 1 {
		return "1 part"
	}
	return fmt.Sprintf("%d parts", n)
}

// parts are a request as a policy sees it, known by the parts of its key alone.
type parts struct {
	parts []policy.KeyPart
	key   []string
}

func (a parts) value(s policy.Source, name string) []string {
	for i, p := range a.parts {
		if p.Source == s && p.Name == name {
			return a.key[i : i+1]
		}
	}
	return nil
}

func (a parts) one(s policy.Source) string {
	for i, p := range a.parts {
		if p.Source == s {
			return a.key[i]
		}
	}
	return ""
}

func (a parts) Method() string              { return a.one(policy.Method) }
func (a parts) Host() string                { return a.one(policy.Host) }
func (a parts) Path() string                { return a.one(policy.Path) }
func (a parts) Header(name string) []string { return a.value(policy.Header, name) }
func (a parts) Query(name string) []string  { return a.value(policy.Query, name) }
func (a parts) Cookie(name string) []string { return a.value(policy.Cookie, name) }

func (a parts) ClientIP() netip.Addr {
	addr, err := netip.ParseAddr(a.one(policy.ClientIP))
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap().WithZone("")
}
