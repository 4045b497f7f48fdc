package shop

import (
	"sync/atomic"

	"github.com/floodweir/weir/flashsale/sale"
)

var (
	layers  = [...]sale.Layer{sale.L0, sale.L1, sale.L2, sale.L3, sale.L4, sale.LS}
	reasons = [...]sale.Reason{sale.NotStarted, sale.HasEnded, sale.IsPaused, sale.IsSoldOut, sale.IsAllTaken, sale.FewLeft,
		sale.PerUserLimit, sale.NotAdmitted, sale.AdmissionExpired, sale.BadToken, sale.QueueFull, sale.NoAdmission, sale.Overloaded}
)

// counters holds the counters of Stats.
type counters struct {
	joins, statusRequests                                   atomic.Int64
	buys, buysGranted, buysRepeated, buysRefused, buyErrors atomic.Int64
	admitted                                                atomic.Int64
	pending, rejected, otherOrders, deadLetters             atomic.Int64
	expired, cancelled, returned, lost, transferred         atomic.Int64
	payments, refundDue                                     atomic.Int64
	droppedNetworks                                         atomic.Int64
	recoveries, inventoryErrors, ledgerErrors, limitErrors  atomic.Int64
	refusals                                                [len(layers)][len(reasons)]atomic.Int64
}

// bought returns the counter of the calls of Buy with a result like r and err.
func (c *counters) bought(r sale.BuyResult, err error) *atomic.Int64 {
	switch {
	case err != nil:
		return &c.buyErrors
	case r.Reason != sale.OK:
		return &c.buysRefused
	case r.Repeated:
		return &c.buysRepeated
	}
	return &c.buysGranted
}

// created returns the counter of orders that were created in a state.
func (c *counters) created(s sale.OrderState) *atomic.Int64 {
	switch s {
	case sale.PendingPay:
		return &c.pending
	case sale.Rejected:
		return &c.rejected
	}
	return &c.otherOrders
}

// paid returns the counter of payments with a result like p.
func (c *counters) paid(p sale.PayResult) *atomic.Int64 {
	if p.RefundDue {
		return &c.refundDue
	}
	return &c.payments
}

func (c *counters) countRefusal(l sale.Layer, r sale.Reason) {
	for i := range layers {
		for j := range reasons {
			if layers[i] == l && reasons[j] == r {
				c.refusals[i][j].Add(1)
				return
			}
		}
	}
}

// refused returns the refusals that are not zero.
func (c *counters) refused() map[sale.Layer]map[sale.Reason]int64 {
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

// Stats holds counters of this Shop since New, and its current state.
type Stats struct {
	Joins, StatusRequests int64

	// Buys = Granted + Repeated + BuysRefused + BuyErrors, when no call is in progress.
	Buys, Granted, Repeated, BuysRefused, BuyErrors int64

	Refused  map[sale.Layer]map[sale.Reason]int64 // by Join, Status and Buy
	Admitted int64                                // tickets

	OrdersCreated, Rejected, DeadLetters       int64 // stream entries that this process handled
	Expired, Cancelled, Returned, Lost         int64 // orders
	Transferred                                int64 // reservations of an earlier epoch
	Paid, RefundDue                            int64 // payments, without repetitions
	DroppedNetworks                            int64 // records of a buyer's network that were dropped
	Recoveries                                 int64
	InventoryErrors, LedgerErrors, LimitErrors int64 // failed calls of the background work
	Sales                                      int   // live ones
	Waiting, Outstanding, Free, Backlog        int64 // sums of all live sales
	Drain                                      float64
	Workers                                    int
}

// read returns the counters. The current state is left zero.
func (c *counters) read() Stats {
	return Stats{
		Joins: c.joins.Load(), StatusRequests: c.statusRequests.Load(),
		Buys: c.buys.Load(), Granted: c.buysGranted.Load(), Repeated: c.buysRepeated.Load(),
		BuysRefused: c.buysRefused.Load(), BuyErrors: c.buyErrors.Load(),
		Refused: c.refused(), Admitted: c.admitted.Load(),
		OrdersCreated: c.pending.Load(), Rejected: c.rejected.Load(), DeadLetters: c.deadLetters.Load(),
		Expired: c.expired.Load(), Cancelled: c.cancelled.Load(), Returned: c.returned.Load(), Lost: c.lost.Load(), Transferred: c.transferred.Load(),
		Paid: c.payments.Load(), RefundDue: c.refundDue.Load(), DroppedNetworks: c.droppedNetworks.Load(), Recoveries: c.recoveries.Load(),
		InventoryErrors: c.inventoryErrors.Load(), LedgerErrors: c.ledgerErrors.Load(), LimitErrors: c.limitErrors.Load(),
	}
}
