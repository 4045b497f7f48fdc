package explain

import (
	"context"
	"slices"
	"strings"

	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
	"github.com/floodweir/weir/share"
)

// A Quota has the limits of Envoy's rate limit quota service. It is safe for concurrent use.
type Quota interface {
	// Domains lists the domains of the service.
	Domains() []string

	// Match returns the limit of a bucket, and without a Limit if there is none. An error describes
	// the id, as in "got …, want …".
	Match(domain string, id map[string]string) (ratelimit.Match, error)

	// Division returns how clients divide a limit with a state that Match has returned.
	Division(ctx context.Context, m ratelimit.Match) (share.Division, error)
}

// explainBucket returns the limit of a bucket of the quota service and how its clients divide it, as if
// it were unused unless divided is set.
func (c *Config) explainBucket(ctx context.Context, q Question, divided bool) (*Answer, error) {
	switch {
	case q.Method+q.URL+q.Host+q.Path+q.ClientIP+q.Draft != "" || len(q.Headers) > 0:
		return nil, invalid("domain", q.Domain, "a request, or a domain and a bucket, not both")
	case c.Quota == nil:
		return nil, invalid("domain", q.Domain, "a program with grpc.quota_service")
	case !slices.Contains(c.Quota.Domains(), q.Domain):
		return nil, invalid("domain", q.Domain, "one of "+strings.Join(c.Quota.Domains(), ", "))
	}
	m, err := c.Quota.Match(q.Domain, q.Bucket)
	if err != nil {
		got, want, _ := strings.Cut(strings.TrimPrefix(err.Error(), "got "), ", want ")
		return nil, problem.Invalid("bucket", got, want)
	}
	a := &Answer{Verdict: Unlimited, Policies: []Policy{}, Request: Request{Domain: q.Domain, Bucket: q.Bucket}}
	l := m.Limit
	if l == nil {
		return a, nil
	}
	p := Policy{Name: m.Path, Matched: true, Mode: "enforce", Enforced: !l.Shadow, Key: m.Key, Cost: 1, Blocks: l.Blocks()}
	switch {
	case l.Shadow:
		p.Mode = "shadow"
	case p.Blocks:
		a.Verdict, a.Denial = Denied, &Denial{Policy: m.Path, Limit: "0", Status: 429, Never: true}
	case !l.Unlimited:
		a.Verdict = Assigned
		p.Limits = []Limit{{Limit: l.Limit.Brief(), Capacity: l.Limit.Capacity()}}
		var v share.Division
		if a.Unused = !divided; divided {
			v, err = c.Quota.Division(ctx, m)
		}
		p.Limits[0].Shares = describe(&v, err)
		p.Limits[0].Shares.Clients = true
	}
	a.Policies = append(a.Policies, p)
	return a, nil
}

// ParsePairs reads the pairs of a bucket's id, such as "user=42".
func ParsePairs(pairs []string) (map[string]string, error) {
	id := map[string]string{}
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if _, twice := id[key]; !ok || key == "" || value == "" || twice {
			return nil, invalid("bucket", pair, "KEY=VALUE, each key once")
		}
		id[key] = value
	}
	return id, nil
}
