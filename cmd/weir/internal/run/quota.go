package run

import (
	"context"

	"github.com/floodweir/weir/cmd/weir/internal/metrics"
	"github.com/floodweir/weir/cmd/weir/internal/rlqs"
	"github.com/floodweir/weir/share"
)

// newQuota returns Envoy's rate limit quota service; nil without domains.
func (p *Program) newQuota() (*rlqs.Server, error) {
	c := p.config.GRPC.QuotaService
	if len(c.Domains) == 0 {
		return nil, nil
	}
	if c.Allow {
		p.log.Warn("grpc.quota_service.after_expiry: allow: clients whose assignment has expired admit every request, so limits have no bound")
	}
	qc := rlqs.Config{
		Domains: c.Domains, TTL: c.TTL, AfterExpiry: rlqs.AfterExpiry{Reuse: c.Reuse, Allow: c.Allow},
		Shadow: p.config.GRPC.Shadow, Log: p.log.With("interface", "grpc"), Observe: p.observers.quota,
	}
	if p.stores.server == nil {
		qc.Ledger, qc.Volatile = share.NewMemory(nil), true
	} else {
		qc.Ledger = p.stores.server.Ledger()
	}
	s, err := rlqs.New(qc)
	if err != nil {
		return nil, err
	}
	p.onStop(func(context.Context) { s.Close() })
	var actions []string
	for _, a := range rlqs.Actions() {
		actions = append(actions, string(a))
	}
	p.observers.metrics.QuotaService(c.Domains, actions, func() (streams, buckets int64) {
		st := s.Stats()
		return st.Streams, st.Buckets
	})
	return s, nil
}

// quota counts an event of the quota service. Requests count as those of the rate limit service.
func (o *observers) quota(e rlqs.Event) {
	if e.Action != "" {
		o.metrics.Quota(e.Domain, string(e.Action))
		return
	}
	o.metrics.DescriptorHits(e.Domain, e.Path, metrics.Hits{Total: e.Allowed + e.Denied, Within: e.Allowed, Over: e.Denied})
}
