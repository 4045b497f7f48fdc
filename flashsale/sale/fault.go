package sale

// A Fault is called at the named points of a buyer's way, so that a test can stop the
// process there. Nil does nothing.
type Fault func(point string)

// At calls f if there is one.
func (f Fault) At(point string) {
	if f != nil {
		f(point)
	}
}

// The points, in the order of the way.
const (
	ReserveAsked     = "reserve.asked"     // before the Inventory is asked
	ReserveDecided   = "reserve.decided"   // engine: decided, not yet in the journal
	ReserveJournaled = "reserve.journaled" // engine: in the journal, not acknowledged
	ReserveGranted   = "reserve.granted"   // the Inventory has answered, the buyer has not been
	ClerkTook        = "clerk.took"        // entries were read from the stream
	PlaceInserted    = "place.inserted"    // orders inserted, not counted, not committed
	PlaceCounted     = "place.counted"     // counted, not committed
	PlaceCommitted   = "place.committed"   // committed, not known outside
	ClerkPlaced      = "clerk.placed"      // orders are there, entries not done
	ClerkDone        = "clerk.done"
	PayTaken         = "pay.taken"     // payment inserted, order not changed, not committed
	PayMarked        = "pay.marked"    // order paid, not committed
	PayCommitted     = "pay.committed" // committed, not answered
	ExpireMarked     = "expire.marked" // orders expired, not counted, not committed
	ExpireCounted    = "expire.counted"
	ExpireCommitted  = "expire.committed"
	CancelMarked     = "cancel.marked"
	CancelCommitted  = "cancel.committed"
	ReturnAsked      = "return.asked"  // before the Inventory gets the unit back
	ReturnGiven      = "return.given"  // it has it, the Ledger does not know
	ReturnMarked     = "return.marked" // the Ledger knows
	StockLedger      = "stock.ledger"  // added in the Ledger, not in the Inventory
	StockGate        = "stock.gate"
	RecoverEpoch     = "recover.epoch"   // the next epoch is handed out
	RecoverClosed    = "recover.closed"  // the state before is closed
	RecoverDrained   = "recover.drained" // its stream is read to its end
	RecoverOpened    = "recover.opened"  // the Inventory is open, the Ledger does not know
	AdmitTaken       = "admit.taken"     // tokens taken from the limit, nobody admitted
	AdmitDone        = "admit.done"
)
