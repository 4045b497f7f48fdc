package flashsale_test

import "github.com/floodweir/weir/flashsale/crashpoint"

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
	case crashpoint.ExpireMarked, crashpoint.ExpireCounted, crashpoint.ExpireCommitted, crashpoint.ReturnGiven, crashpoint.ReturnMarked:
		return e == lapses
	case crashpoint.PayTaken, crashpoint.PayMarked, crashpoint.PayCommitted, crashpoint.AdmitTaken, crashpoint.AdmitDone:
		return e == pays
	}
	return false
}

// crashPoints are all points of a buyer's way.
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
