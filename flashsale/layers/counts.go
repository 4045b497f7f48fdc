package layers

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/floodweir/weir/flashsale/sale"
)

// The reasons of refusals that only the HTTP interfaces need.
const (
	Invalid   sale.Reason = "invalid"
	NoSession sale.Reason = "no_session"
	CSRF      sale.Reason = "csrf"

	// The account of a merchant has another role, and needs at least this one.
	NeedsService sale.Reason = "needs_service"
	NeedsManage  sale.Reason = "needs_manage"
	NeedsOwner   sale.Reason = "needs_owner"

	NotFound    sale.Reason = "not_found"
	Conflict    sale.Reason = "conflict"
	RefundDue   sale.Reason = "refund_due"
	TooMany     sale.Reason = "too_many"
	Unavailable sale.Reason = "unavailable"

	other sale.Reason = "other" // counted for any unknown reason
)

// cause is the layer and the reason of a refusal.
type cause struct {
	layer  sale.Layer
	reason sale.Reason
}

// counts holds the counters of requests. Its series are fixed when it is made.
type counts struct {
	requests, admitted atomic.Int64
	refused            map[cause]*atomic.Int64
	broken             atomic.Bool // the policy file is broken

	descRequests, descAdmitted, descRefused, descBroken *prometheus.Desc
}

func newCounts() *counts {
	c := &counts{
		refused:      map[cause]*atomic.Int64{},
		descRequests: prometheus.NewDesc("flashsale_requests_total", "Requests to the shop.", nil, nil),
		descAdmitted: prometheus.NewDesc("flashsale_admitted_total", "Requests that no layer refused, whatever their status.", nil, nil),
		descRefused:  prometheus.NewDesc("flashsale_refused_total", "Requests that a layer refused.", []string{"layer", "reason"}, nil),
		descBroken:   prometheus.NewDesc("flashsale_layers_broken", "1 while the policy file is invalid and the previous one is in force, else 0.", nil, nil),
	}
	for _, l := range []sale.Layer{sale.L0, sale.L1, sale.L2, sale.L3, sale.L4, sale.LS, sale.Layer(other)} {
		for _, r := range []sale.Reason{
			sale.NotStarted, sale.HasEnded, sale.IsPaused, sale.IsSoldOut, sale.IsAllTaken, sale.FewLeft, sale.PerUserLimit,
			sale.NotAdmitted, sale.AdmissionExpired, sale.BadToken, sale.WorkRequired, sale.CaptchaRequired, sale.SignInRequired, sale.QueueFull, sale.NoAdmission, sale.Overloaded,
			TooMany, Unavailable, other,
		} {
			c.refused[cause{l, r}] = new(atomic.Int64)
		}
	}
	return c
}

// refuse counts a refusal.
func (c *counts) refuse(layer sale.Layer, reason sale.Reason) {
	n := c.refused[cause{layer, reason}]
	if n == nil {
		n = c.refused[cause{layer, other}]
	}
	if n == nil {
		n = c.refused[cause{sale.Layer(other), other}]
	}
	n.Add(1)
}

func (c *counts) refusals() map[sale.Layer]map[sale.Reason]int64 {
	all := map[sale.Layer]map[sale.Reason]int64{}
	for k, v := range c.refused {
		n := v.Load()
		if n == 0 {
			continue
		}
		if all[k.layer] == nil {
			all[k.layer] = map[sale.Reason]int64{}
		}
		all[k.layer][k.reason] = n
	}
	return all
}

func (c *counts) totals() (requests, admitted, refused int64) {
	for _, v := range c.refused {
		refused += v.Load()
	}
	admitted = c.admitted.Load()
	return c.requests.Load(), admitted, refused
}

// Describe implements prometheus.Collector.
func (c *counts) Describe(to chan<- *prometheus.Desc) {
	to <- c.descRequests
	to <- c.descAdmitted
	to <- c.descRefused
	to <- c.descBroken
}

// Collect implements prometheus.Collector.
func (c *counts) Collect(to chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, n int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	for k, v := range c.refused {
		if n := v.Load(); n > 0 {
			counter(c.descRefused, n, string(k.layer), string(k.reason))
		}
	}
	counter(c.descAdmitted, c.admitted.Load())
	counter(c.descRequests, c.requests.Load())
	broken := 0.0
	if c.broken.Load() {
		broken = 1
	}
	to <- prometheus.MustNewConstMetric(c.descBroken, prometheus.GaugeValue, broken)
}
