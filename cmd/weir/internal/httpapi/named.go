package httpapi

import (
	"fmt"
	"net/netip"
	"strconv"

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

// newNamed makes a policy that reads nothing but its key: who asks by name has
// matched already, says what it costs, and is answered whatever the mode.
func newNamed(p *policy.Policy) (*named, error) {
	c := p.Config()
	n := &named{name: c.Name, cost: c.Cost}
	match := policy.Match{}
	key := make([]policy.KeyPart, len(c.Key))
	for i, part := range c.Key {
		switch part.Source {
		case policy.Path:
			match.Paths = c.Match.Paths // the pattern that matches is the key
		case policy.Host:
			match.Hosts = c.Match.Hosts
		case policy.Claim, policy.Expression:
			// What such a part would find in a request is what the client gives.
			part = policy.KeyPart{Source: policy.Expression, Of: given(len(n.parts))}
		}
		key[i] = part
		if part.Source != policy.Constant {
			n.parts = append(n.parts, part)
		}
	}
	asked, err := policy.New(policy.Config{
		Name: c.Name, Match: match, Key: key, Limits: c.Limits, Cost: c.Cost, Carry: c.Carry, Overrides: c.Overrides,
	})
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

// given is the part of a key that is the client's i-th. It is found among query
// parameters, under a name that no policy can ask for.
type given int

func (g given) name() string { return "\x00" + strconv.Itoa(int(g)) }

// Text implements [policy.Text].
func (g given) Text(a policy.Attributes) (string, error) {
	if values := a.Query(g.name()); len(values) == 1 {
		return values[0], nil
	}
	return "", nil
}

// String implements [policy.Text].
func (g given) String() string { return "part " + strconv.Itoa(int(g)) }

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
func (a parts) Cookie(name string) []string { return a.value(policy.Cookie, name) }

func (a parts) Query(name string) []string {
	for i := range a.parts {
		if a.parts[i].Source == policy.Expression && given(i).name() == name {
			return a.key[i : i+1]
		}
	}
	return a.value(policy.Query, name)
}

func (a parts) ClientIP() netip.Addr {
	addr, err := netip.ParseAddr(a.one(policy.ClientIP))
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap().WithZone("")
}
