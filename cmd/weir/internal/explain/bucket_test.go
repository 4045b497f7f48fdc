package explain_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/explain"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
	"github.com/floodweir/weir/share"
)

// A quota is a quota service with limits and a fixed division.
type quota struct {
	limits *ratelimit.Config
	err    error
}

func (q quota) Domains() []string { return []string{"api"} }

func (q quota) Match(domain string, id map[string]string) (ratelimit.Match, error) {
	if len(id) != 1 {
		return ratelimit.Match{}, errors.New("got no pairs, want 1 to 30")
	}
	var m ratelimit.Match
	for key, value := range id {
		m, _ = q.limits.Domain(domain).Match([]ratelimit.Entry{{Key: key, Value: value}})
	}
	return m, nil
}

func (q quota) Division(context.Context, ratelimit.Match) (share.Division, error) {
	return share.Division{Remainder: 0.5, Stranded: 0.05, Holders: []share.Holder{{ID: 1, Rate: 0.3}, {ID: 2, Rate: 0.2}}}, q.err
}

// TestBucket explains buckets of the quota service.
func TestBucket(t *testing.T) {
	limits, err := ratelimit.Parse("limits.yaml", []byte(`
domain: api
descriptors:
  - key: user
    rate_limit: { unit: second, requests_per_unit: 1000, algorithm: token_bucket }
  - { key: closed, rate_limit: { unit: second, requests_per_unit: 0 } }
  - { key: open, rate_limit: { unlimited: true } }
  - { key: trial, shadow_mode: true, rate_limit: { unit: second, requests_per_unit: 1000, algorithm: token_bucket } }
`))
	if err != nil {
		t.Fatal(err)
	}
	away := fmt.Errorf("ledger: %w: refused", weir.ErrUnavailable)
	for _, test := range []struct {
		query string
		quota explain.Quota
		role  access.Role
		want  string // the text, or the detail of a problem
	}{
		{"domain=api&bucket=user=x", quota{limits: limits}, access.Operate, "bucket user=x of api: clients decide by their parts of the limit\n" +
			"  user: enforced, key |envoy|3:api|4:user|1:x, cost 1\n    1000/s burst 1000\n      divided: 2 clients hold 50.0% of the rate, 5.0% more than their demand\n"},
		{"domain=api&bucket=user=x", quota{limits, away}, access.Operate, "      shares unknown: ledger: store unavailable: refused\n"},
		{"domain=api&bucket=user=x", quota{limits: limits}, access.Read, "  as if unused: the role read does not see the state of a key\n  user: enforced, key |envoy|3:api|4:user|1:x, cost 1\n    1000/s burst 1000\n      divided: no client holds a share\n"},
		{"domain=api&bucket=closed=x", quota{limits: limits}, access.Operate, "bucket closed=x of api: denied by closed with status 429, would never pass\n  closed: enforced\n    blocks the request\n"},
		{"domain=api&bucket=open=x", quota{limits: limits}, access.Operate, "bucket open=x of api: clients admit every request\n  open: enforced\n"},
		{"domain=api&bucket=trial=x", quota{limits: limits}, access.Operate, "bucket trial=x of api: clients admit every request\n  trial: in shadow"},
		{"domain=api&bucket=other=x", quota{limits: limits}, access.Operate, "bucket other=x of api: clients admit every request\n"},
		{"domain=api", quota{limits: limits}, access.Operate, "bucket: got no pairs, want 1 to 30"},
		{"domain=api&bucket=user", quota{limits: limits}, access.Operate, `bucket: got "user", want KEY=VALUE, each key once`},
		{"domain=api&bucket=a=b&bucket=a=c", quota{limits: limits}, access.Operate, `bucket: got "a=c", want KEY=VALUE, each key once`},
		{"domain=other&bucket=user=x", quota{limits: limits}, access.Operate, `domain: got "other", want one of api`},
		{"bucket=user=x", quota{limits: limits}, access.Operate, `domain: got nothing, want one of api`},
		{"domain=api&bucket=user=x&url=/", quota{limits: limits}, access.Operate, `domain: got "api", want a request, or a domain and a bucket, not both`},
		{"domain=api&bucket=user=x", nil, access.Operate, `domain: got "api", want a program with grpc.quota_service`},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/v1/explain?"+test.query, nil)
		explain.New(explain.Config{Quota: test.quota}).ServeHTTP(w, r.WithContext(access.WithActor(t.Context(), access.Actor{Name: "mei", Role: test.role})))
		var a explain.Answer
		var p struct{ Detail string }
		if err := errors.Join(json.Unmarshal(w.Body.Bytes(), &a), json.Unmarshal(w.Body.Bytes(), &p)); err != nil {
			t.Fatal(err)
		}
		text := &strings.Builder{}
		if err := a.WriteText(text); err != nil {
			t.Fatal(err)
		}
		got := text.String() + p.Detail
		if !strings.Contains(got, test.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", test.query, got, test.want)
		}
	}
}
