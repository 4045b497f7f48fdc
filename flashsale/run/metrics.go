package run

import (
	"github.com/floodweir/weir/flashsale/cashier"
	"github.com/floodweir/weir/flashsale/shop"
	"github.com/prometheus/client_golang/prometheus"
)

// collector exports the counters of a shop to Prometheus, in a fixed number of series.
type collector struct {
	shop    *shop.Shop
	metrics []metric
}

// cashierMetrics returns a collector of a cashier's counters.
func cashierMetrics(k *cashier.Cashier) prometheus.Collector {
	return &cashierCollector{k, prometheus.NewDesc("flashsale_payments_total", "Payments at providers, by what happened to them in this process.", []string{"what"}, nil)}
}

type cashierCollector struct {
	k    *cashier.Cashier
	desc *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *cashierCollector) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

// Collect implements prometheus.Collector.
func (c *cashierCollector) Collect(to chan<- prometheus.Metric) {
	s := c.k.Stats()
	for what, n := range map[string]int64{
		"opened": s.Opened, "notified": s.Notices, "forged": s.Forged, "unknown": s.Unknown, "settled": s.Settled, "closed": s.Closed,
		"refunded": s.Refunded, "refund_failed": s.RefundsFailed, "unanswered": s.Errors,
	} {
		to <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, float64(n), what)
	}
}

type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	label []string
	value func(*shop.Stats) float64
}

// metricsOf returns a collector of a shop's counters.
func metricsOf(s *shop.Shop) *collector {
	c := &collector{shop: s}
	add := func(kind prometheus.ValueType, name, help, label, of string, value func(*shop.Stats) float64) {
		var labels, values []string
		if label != "" {
			labels, values = []string{label}, []string{of}
		}
		c.metrics = append(c.metrics, metric{prometheus.NewDesc("flashsale_"+name, help, labels, nil), kind, values, value})
	}
	count := func(name, help, label, of string, value func(*shop.Stats) int64) {
		add(prometheus.CounterValue, name, help, label, of, func(s *shop.Stats) float64 { return float64(value(s)) })
	}
	gauge := func(name, help string, value func(*shop.Stats) float64) {
		add(prometheus.GaugeValue, name, help, "", "", value)
	}

	const tickets = "Requests to join, requests for a ticket's status, and admitted tickets, in this process."
	count("tickets_total", tickets, "what", "joined", func(s *shop.Stats) int64 { return s.Joins })
	count("tickets_total", tickets, "what", "asked", func(s *shop.Stats) int64 { return s.StatusRequests })
	count("tickets_total", tickets, "what", "admitted", func(s *shop.Stats) int64 { return s.Admitted })

	const buys = "Purchase requests by result."
	count("buys_total", buys, "result", "granted", func(s *shop.Stats) int64 { return s.Granted })
	count("buys_total", buys, "result", "again", func(s *shop.Stats) int64 { return s.Repeated })
	count("buys_total", buys, "result", "refused", func(s *shop.Stats) int64 { return s.BuysRefused })
	count("buys_total", buys, "result", "error", func(s *shop.Stats) int64 { return s.BuyErrors })

	const orders = "Orders that this process created or changed, by state. buried counts dead letters."
	count("orders_total", orders, "state", "pending_pay", func(s *shop.Stats) int64 { return s.OrdersCreated })
	count("orders_total", orders, "state", "rejected", func(s *shop.Stats) int64 { return s.Rejected })
	count("orders_total", orders, "state", "buried", func(s *shop.Stats) int64 { return s.DeadLetters })
	count("orders_total", orders, "state", "expired", func(s *shop.Stats) int64 { return s.Expired })
	count("orders_total", orders, "state", "cancelled", func(s *shop.Stats) int64 { return s.Cancelled })
	count("orders_total", orders, "state", "lost", func(s *shop.Stats) int64 { return s.Lost })
	count("orders_total", orders, "state", "paid", func(s *shop.Stats) int64 { return s.Paid })
	count("orders_total", orders, "state", "refund_due", func(s *shop.Stats) int64 { return s.RefundDue })
	count("returned_total", "Units that this process returned to the inventory.", "", "", func(s *shop.Stats) int64 { return s.Returned })
	count("transferred_total", "Reservations of a lost inventory that this process transferred to the new one.", "", "", func(s *shop.Stats) int64 { return s.Transferred })
	count("recoveries_total", "Inventories that this process rebuilt.", "", "", func(s *shop.Stats) int64 { return s.Recoveries })

	count("unseen_total", "Records of a buyer's network that were dropped.", "", "", func(s *shop.Stats) int64 { return s.DroppedNetworks })

	const failed = "Failed calls of the background work, by store."
	count("unanswered_total", failed, "by", "inventory", func(s *shop.Stats) int64 { return s.InventoryErrors })
	count("unanswered_total", failed, "by", "ledger", func(s *shop.Stats) int64 { return s.LedgerErrors })
	count("unanswered_total", failed, "by", "limits", func(s *shop.Stats) int64 { return s.LimitErrors })

	gauge("sales", "Sales that buyers see.", func(s *shop.Stats) float64 { return float64(s.Sales) })
	gauge("waiting", "Waiting tickets of all sales.", func(s *shop.Stats) float64 { return float64(s.Waiting) })
	gauge("tokens", "Outstanding admission tokens of all sales.", func(s *shop.Stats) float64 { return float64(s.Outstanding) })
	gauge("free", "Free units of all sales.", func(s *shop.Stats) float64 { return float64(s.Free) })
	gauge("backlog", "Unacknowledged stream entries of all sales.", func(s *shop.Stats) float64 { return float64(s.Backlog) })
	gauge("drain", "Measured write rate of the order writers, in orders per second.", func(s *shop.Stats) float64 { return s.Drain })
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		to <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := c.shop.Stats()
	for _, m := range c.metrics {
		to <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&s), m.label...)
	}
}
