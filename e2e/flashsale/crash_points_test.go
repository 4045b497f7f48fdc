package flashsale_test

import "github.com/floodweir/weir/flashsale/sale"

// A crashPoint is where a process is killed.
type crashPoint struct {
	point string
	late  bool // reached by a process that starts after a kill, once: its only sale is recovered once
	stock bool // reached when units are added

	embedded bool // there is no such point over Redis
}

// inTurn reports whether customers of an end have to come one after the other for this point
// to be passed once for each of them: those who are there at once may pass it together. Of the
// other points that are passed together, a sale of 4 units to 10 customers passes each 3 times.
func (p crashPoint) inTurn(e end) bool {
	switch p.point {
	case sale.ExpireMarked, sale.ExpireCounted, sale.ExpireCommitted, sale.ReturnGiven, sale.ReturnMarked:
		return e == lapses
	case sale.PayTaken, sale.PayMarked, sale.PayCommitted, sale.AdmitTaken, sale.AdmitDone:
		return e == pays
	}
	return false
}

// crashPoints are all points of a buyer's way.
func crashPoints() []crashPoint {
	var all []crashPoint
	for _, p := range []string{
		sale.ReserveAsked, sale.ReserveDecided, sale.ReserveJournaled, sale.ReserveGranted,
		sale.ClerkTook, sale.PlaceInserted, sale.PlaceCounted, sale.PlaceCommitted, sale.ClerkPlaced, sale.ClerkDone,
		sale.PayTaken, sale.PayMarked, sale.PayCommitted,
		sale.ExpireMarked, sale.ExpireCounted, sale.ExpireCommitted, sale.CancelMarked, sale.CancelCommitted,
		sale.ReturnAsked, sale.ReturnGiven, sale.ReturnMarked, sale.AdmitTaken, sale.AdmitDone,
	} {
		c := crashPoint{point: p}
		c.embedded = p == sale.ReserveDecided || p == sale.ReserveJournaled
		all = append(all, c)
	}
	for _, p := range []string{sale.StockLedger, sale.StockGate} {
		all = append(all, crashPoint{point: p, stock: true})
	}
	for _, p := range []string{sale.RecoverEpoch, sale.RecoverClosed, sale.RecoverDrained, sale.RecoverOpened} {
		all = append(all, crashPoint{point: p, late: true})
	}
	return all
}
