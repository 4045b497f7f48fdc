package shop

import (
	"sync/atomic"

	"github.com/floodweir/weir/flashsale/sale"
)

var (
	layers  = [...]sale.Layer{sale.L0, sale.L1, sale.L2, sale.L3, sale.L4, sale.LS}
	reasons = [...]sale.Reason{sale.NotStarted, sale.HasEnded, sale.IsPaused, sale.IsSoldOut, sale.IsAllTaken,
		sale.PerUserLimit, sale.NotAdmitted, sale.AdmissionExpired, sale.BadToken, sale.QueueFull, sale.NoAdmission, sale.Overloaded}
)

// counters are what Stats is made of.
type counters struct {
	joins, turns                                         atomic.Int64
	buys, buysGranted, buysAgain, buysRefused, buyErrors atomic.Int64
	admitted                                             atomic.Int64
	pending, rejected, otherwise, buried                 atomic.Int64
	expired, cancelled, returned, lost                   atomic.Int64
	paidFor, refundDue                                   atomic.Int64
	unseen                                               atomic.Int64
	recoveries, gateAway, ledgerAway, limitsAway         atomic.Int64
	refusals                                             [len(layers)][len(reasons)]atomic.Int64
}

// placed is the counter of orders that came into the Ledger in a state.
func (c *counters) placed(s sale.OrderState) *atomic.Int64 {
	switch s {
	case sale.PendingPay:
		return &c.pending
	case sale.Rejected:
		return &c.rejected
	}
	return &c.otherwise
}

func (c *counters) paid(p sale.PayResult) *atomic.Int64 {
	if p.RefundDue {
		return &c.refundDue
	}
	return &c.paidFor
}

func (c *counters) refused(l sale.Layer, r sale.Reason) {
	for i := range layers {
		for j := range reasons {
			if layers[i] == l && reasons[j] == r {
				c.refusals[i][j].Add(1)
				return
			}
		}
	}
}

func (c *counters) refusedAll() map[sale.Layer]map[sale.Reason]int64 {
	all := map[sale.Layer]map[sale.Reason]int64{}
	for i, l := range layers {
		for j, r := range reasons {
			if n := c.refusals[i][j].Load(); n > 0 {
				if all[l] == nil {
					all[l] = map[sale.Reason]int64{}
				}
				all[l][r] = n
			}
		}
	}
	return all
}

// Stats are counts of what this shop has done since New, and what it has now.
type Stats struct {
	Joins, StatusRequests int64 // answered or not

	// Buys = Granted + Again + BuysRefused + BuyErrors, when none is under way.
	Buys, Granted, Repeated, BuysRefused, BuyErrors int64

	Refused  map[sale.Layer]map[sale.Reason]int64 // of Join, Turn and Buy
	Admitted int64                                // tickets

	OrdersCreated, Rejected, DeadLetters       int64 // of the streams' entries, by the clerks of this shop
	Expired, Cancelled, Returned, Lost         int64
	Paid, RefundDue                            int64 // payments, each once
	DroppedNetworks                            int64 // buyers of whom it is not noted from where
	Recoveries                                 int64
	InventoryErrors, LedgerErrors, LimitErrors int64 // questions of its own that were not answered
	Sales                                      int   // that are kept
	Waiting, Outstanding, Free, Backlog        int64 // of all of them together
	Drain                                      float64
	Workers                                    int
}

// Stats counts.
func (s *Shop) Stats() Stats {
	c := &s.tally
	st := Stats{
		Joins: c.joins.Load(), StatusRequests: c.turns.Load(),
		Buys: c.buys.Load(), Granted: c.buysGranted.Load(), Repeated: c.buysAgain.Load(),
		BuysRefused: c.buysRefused.Load(), BuyErrors: c.buyErrors.Load(),
		Refused: c.refusedAll(), Admitted: c.admitted.Load(),
		OrdersCreated: c.pending.Load(), Rejected: c.rejected.Load(), DeadLetters: c.buried.Load(),
		Expired: c.expired.Load(), Cancelled: c.cancelled.Load(), Returned: c.returned.Load(), Lost: c.lost.Load(),
		Paid: c.paidFor.Load(), RefundDue: c.refundDue.Load(), DroppedNetworks: c.unseen.Load(), Recoveries: c.recoveries.Load(),
		InventoryErrors: c.gateAway.Load(), LedgerErrors: c.ledgerAway.Load(), LimitErrors: c.limitsAway.Load(),
		Drain: s.drain.shown(), Workers: s.Workers,
	}
	for _, l := range *s.open.Load() {
		p := l.snap.Load()
		st.Sales++
		if p.have {
			st.Waiting += p.counts.Waiting
			st.Outstanding += p.counts.Outstanding
			st.Free += p.counts.Free
			st.Backlog += p.counts.Backlog
		}
	}
	return st
}
