package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/netip"
	"strconv"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// A keyedPolicy builds the requests of a policy from the parts of its key. The keys are
// those that the gateway builds from a request.
type keyedPolicy struct {
	name   string
	policy *policy.Policy   // in force, for events
	parts  []policy.KeyPart // those that the client sends: all except constants
	cost   int64
	set    *policy.Set
}

// newKeyedPolicy returns a policy that depends only on its key. A client that names the
// policy has matched it, sets the cost, and gets a decision in every mode.
func newKeyedPolicy(p *policy.Policy) (*keyedPolicy, error) {
	c := p.Config()
	n := &keyedPolicy{name: c.Name, policy: p, cost: c.Cost}
	match := policy.Match{}
	key := make([]policy.KeyPart, len(c.Key))
	for i, part := range c.Key {
		switch part.Source {
		case policy.Path:
			match.Paths = c.Match.Paths // the matching pattern is the key
		case policy.Host:
			match.Hosts = c.Match.Hosts
		case policy.Claim:
			part = keyClaim(len(n.parts), part)
		case policy.CEL:
			part.Of = keyExpression{len(n.parts), part.String()}
		}
		key[i] = part
		if part.Source != policy.Constant {
			n.parts = append(n.parts, part)
		}
	}
	plain, err := policy.New(policy.Config{
		Name: c.Name, Zone: c.Zone, Match: match, Key: key, Limits: c.Limits, Block: c.Block, Unlimited: c.Unlimited,
		Cost: c.Cost, Carry: c.Carry, Overrides: c.Overrides, Tenants: c.Tenants,
	})
	if err != nil {
		return nil, err
	}
	n.set, err = policy.NewSet(plain)
	return n, err
}

// requests returns the requests to the store for a key with the given parts, and the key of their
// states. If the policy has no limits for it, it returns the decision. Adjusted has the adjustments.
func (n *keyedPolicy) requests(key []string, adjusted *policy.Set) ([]weir.Request, string, fixed, error) {
	if len(key) != len(n.parts) && !(len(n.parts) == 0 && len(key) == 1) {
		return nil, "", "", invalid("key", []byte(countParts(len(key))), fmt.Sprintf("%s, as policy %s has", countParts(len(n.parts)), n.name))
	}
	a := keyAttributes{n.parts, key}
	for i, p := range n.parts {
		if p.Source == policy.ClientIP && !a.ClientIP().IsValid() {
			return nil, "", "", invalid(fmt.Sprintf("key[%d]", i), []byte(key[i]), "an IP address")
		}
	}
	var q policy.Matches
	set := n.set.AdjustedAs(adjusted)
	set.Match(&q, a)
	switch {
	case len(q.Requests) > 0:
		return q.Requests, q.Charges[0].Key, "", nil
	case len(q.Charges) > 0: // without a request to the store
		return nil, q.Charges[0].Key, blocked, nil
	case set.Explain(&q, a)[0].Missed == "unlimited":
		return nil, "", unlimited, nil
	}
	return nil, "", "", invalid("key", fmt.Appendf(nil, "%q", key), "a key that policy "+n.name+" matches")
}

func countParts(n int) string {
	if n == 1 {
		return "1 part"
	}
	return fmt.Sprintf("%d parts", n)
}

// keyExpression is an expression whose value is the client's part number at. It reads the
// part as a query parameter with a name that no policy can use. Its text is that of the
// original expression, by which a policy finds its predecessor.
type keyExpression struct {
	at   int
	text string
}

func parameter(at int) string { return "\x00" + strconv.Itoa(at) }

// Eval implements [policy.Expression].
func (g keyExpression) Eval(a policy.Attributes) (string, error) {
	if values := a.Query(parameter(g.at)); len(values) == 1 {
		return values[0], nil
	}
	return "", nil
}

// String implements [policy.Expression].
func (g keyExpression) String() string { return g.text }

// keyClaim replaces a claim by one with the same name in a token in a header of its own,
// which holds the client's part number at.
func keyClaim(at int, claim policy.KeyPart) policy.KeyPart {
	h := fnv.New32a()
	h.Write([]byte(claim.Name))
	claim.Name = fmt.Sprintf("%s@X-Weir-%d-%08x", claimName(claim), at, h.Sum32())
	return claim
}

// claimName returns the name of a claim without the name of the header.
func claimName(claim policy.KeyPart) string {
	if i := strings.LastIndexByte(claim.Name, '@'); i >= 0 {
		return claim.Name[:i]
	}
	return claim.Name
}

// token returns the payload of a token with one claim.
func token(claim policy.KeyPart, value string) string {
	payload, err := json.Marshal(map[string]string{claimName(claim): value})
	if err != nil { // impossible for strings
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(payload)
}

// keyAttributes presents the parts of a key as the attributes of a request.
type keyAttributes struct {
	parts []policy.KeyPart
	key   []string
}

func (a keyAttributes) value(s policy.Source, name string) []string {
	for i, p := range a.parts {
		if p.Source == s && p.Name == name {
			return a.key[i : i+1]
		}
	}
	return nil
}

func (a keyAttributes) one(s policy.Source) string {
	for i, p := range a.parts {
		if p.Source == s {
			return a.key[i]
		}
	}
	return ""
}

func (a keyAttributes) Method() string              { return a.one(policy.Method) }
func (a keyAttributes) Host() string                { return a.one(policy.Host) }
func (a keyAttributes) Path() string                { return a.one(policy.Path) }
func (a keyAttributes) Cookie(name string) []string { return a.value(policy.Cookie, name) }

// Form implements [policy.BodyAttributes].
func (a keyAttributes) Form(name string) string { return strings.Join(a.value(policy.Form, name), "") }

// JSON implements [policy.BodyAttributes].
func (a keyAttributes) JSON(path string) string { return strings.Join(a.value(policy.JSON, path), "") }

func (a keyAttributes) Header(name string) []string {
	for i, p := range a.parts {
		if p.Source == policy.Claim && strings.EqualFold(p.Name[len(claimName(p))+1:], name) {
			return []string{token(p, a.key[i])}
		}
	}
	return a.value(policy.Header, name)
}

func (a keyAttributes) Query(name string) []string {
	for i, p := range a.parts {
		if p.Source == policy.CEL && parameter(i) == name {
			return a.key[i : i+1]
		}
	}
	return a.value(policy.Query, name)
}

func (a keyAttributes) ClientIP() netip.Addr {
	addr, err := netip.ParseAddr(a.one(policy.ClientIP))
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap().WithZone("")
}
