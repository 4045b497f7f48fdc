package flashsale_test

import "github.com/floodweir/weir/flashsale/crashpoint"

// A crashPoint is a point at which a process is killed.
type crashPoint struct {
	point string
	late  bool // reached only in a recovery, once: by a process that starts after a kill
	stock bool // reached when units are added

	embedded bool // absent over Redis
}

// inTurn reports whether customers must come one after the other to reach this point once each.
// Customers who come at once may reach it together. A sale of 4 units to 10 customers reaches
// each other shared point 3 times.
func (p crashPoint) inTurn(e end) bool {
	switch p.point {
	case crashpoint.ExpireMarked, crashpoint.ExpireCounted, crashpoint.ExpireCommitted, crashpoint.ReturnGiven, crashpoint.ReturnMarked:
		return e == expires
	case crashpoint.PayTaken, crashpoint.PayMarked, crashpoint.PayCommitted, crashpoint.AdmitTaken, crashpoint.AdmitDone:
		return e == pays
	}
	return false
}

// crashPoints returns all points.
func crashPoints() []crashPoint {
	var all []crashPoint
	for _, p := range []string{
		crashpoint.ReserveAsked, crashpoint.ReserveDecided, crashpoint.ReserveJournaled, crashpoint.ReserveGranted,
		crashpoint.WriterTook, crashpoint.PlaceInserted, crashpoint.PlaceCounted, crashpoint.PlaceCommitted, crashpoint.WriterPlaced, crashpoint.WriterDone,
		crashpoint.PayTaken, crashpoint.PayMarked, crashpoint.PayCommitted,
		crashpoint.ExpireMarked, crashpoint.ExpireCounted, crashpoint.ExpireCommitted, crashpoint.CancelMarked, crashpoint.CancelCommitted,
		crashpoint.ReturnAsked, crashpoint.ReturnGiven, crashpoint.ReturnMarked, crashpoint.AdmitTaken, crashpoint.AdmitDone,
	} {
		c := crashPoint{point: p}
		c.embedded = p == crashpoint.ReserveDecided || p == crashpoint.ReserveJournaled
		all = append(all, c)
	}
	for _, p := range []string{crashpoint.StockLedger, crashpoint.StockInventory} {
		all = append(all, crashPoint{point: p, stock: true})
	}
	for _, p := range []string{crashpoint.RecoverEpoch, crashpoint.RecoverClosed, crashpoint.RecoverDrained, crashpoint.RecoverOpened} {
		all = append(all, crashPoint{point: p, late: true})
	}
	return all
}
