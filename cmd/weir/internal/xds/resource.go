package xds

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	pb "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// A Resource is one domain in the file format of envoyproxy/ratelimit, as JSON.
type Resource struct {
	Name string
	Text []byte
}

func (r Resource) equal(o Resource) bool { return r.Name == o.Name && bytes.Equal(r.Text, o.Text) }

// typeURL is the type of the resources.
const typeURL = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

// The file format.
type (
	domain struct {
		Domain      string       `json:"domain"`
		Descriptors []descriptor `json:"descriptors,omitempty"`
	}
	descriptor struct {
		Key            string         `json:"key"`
		Value          string         `json:"value,omitempty"`
		RateLimit      *limit         `json:"rate_limit,omitempty"`
		Descriptors    []descriptor   `json:"descriptors,omitempty"`
		ShadowMode     bool           `json:"shadow_mode,omitempty"`
		QuotaMode      bool           `json:"quota_mode,omitempty"`
		DetailedMetric bool           `json:"detailed_metric,omitempty"`
		Metadata       map[string]any `json:"metadata,omitempty"`
	}
	limit struct {
		Unit            string    `json:"unit,omitempty"`
		RequestsPerUnit *uint32   `json:"requests_per_unit,omitempty"`
		Unlimited       bool      `json:"unlimited,omitempty"`
		Name            string    `json:"name,omitempty"`
		Replaces        []replace `json:"replaces,omitempty"`
	}
	replace struct {
		Name string `json:"name"`
	}
)

// decode returns resources in the order of their names, whatever the order in the response.
func decode(all []*anypb.Any) ([]Resource, error) {
	resources := make([]Resource, 0, len(all))
	for i, one := range all {
		var c pb.RateLimitConfig
		if err := one.UnmarshalTo(&c); err != nil {
			return nil, fmt.Errorf("xds: resources[%d]: %w", i, err)
		}
		text, err := json.Marshal(domain{c.GetDomain(), descriptors(c.GetDescriptors())})
		if err != nil {
			return nil, fmt.Errorf("xds: resource %q: %w", c.GetName(), err)
		}
		resources = append(resources, Resource{c.GetName(), text})
	}
	slices.SortStableFunc(resources, func(a, b Resource) int { return strings.Compare(a.Name, b.Name) })
	return resources, nil
}

func descriptors(from []*pb.RateLimitDescriptor) (all []descriptor) {
	for _, d := range from {
		all = append(all, descriptor{
			Key: d.GetKey(), Value: d.GetValue(), RateLimit: limitOf(d.GetRateLimit()), Descriptors: descriptors(d.GetDescriptors()),
			ShadowMode: d.GetShadowMode(), QuotaMode: d.GetQuotaMode(), DetailedMetric: d.GetDetailedMetric(), Metadata: d.GetMetadata().AsMap(),
		})
	}
	return all
}

func limitOf(p *pb.RateLimitPolicy) *limit {
	if p == nil {
		return nil
	}
	l := &limit{Unlimited: p.GetUnlimited(), Name: p.GetName()}
	if unit := p.GetUnit(); unit != pb.RateLimitUnit_UNKNOWN || !l.Unlimited {
		l.Unit = strings.ToLower(unit.String())
	}
	if !l.Unlimited {
		l.RequestsPerUnit = &p.RequestsPerUnit
	}
	for _, r := range p.GetReplaces() {
		l.Replaces = append(l.Replaces, replace{r.GetName()})
	}
	return l
}
