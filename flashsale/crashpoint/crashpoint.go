// Package crashpoint names the points at which a test kills a process of the flash sale. Only
// a build with the tag crashpoints calls hooks; in any other build a Hook is empty, and At is
// an inlined function without code.
package crashpoint

// The crash points, in the order in which a purchase passes them.
const (
	ReserveAsked     = "reserve.asked"     // before the call to the inventory
	ReserveDecided   = "reserve.decided"   // meminventory: decided, not yet in the journal
	ReserveJournaled = "reserve.journaled" // meminventory: in the journal, not acknowledged
	ReserveGranted   = "reserve.granted"   // the inventory has replied, the buyer has no response
	WriterTook       = "writer.took"       // entries were read from the stream
	PlaceInserted    = "place.inserted"    // orders inserted, not counted, not committed
	PlaceCounted     = "place.counted"     // counted, not committed
	PlaceCommitted   = "place.committed"   // committed, not acknowledged
	WriterPlaced     = "writer.placed"     // orders placed, entries not acknowledged
	WriterDone       = "writer.done"
	PayTaken         = "pay.taken"     // payment inserted, order not changed, not committed
	PayMarked        = "pay.marked"    // order paid, not committed
	PayCommitted     = "pay.committed" // committed, no response yet
	EventTaken       = "event.taken"   // a provider's event inserted, not applied, not committed
	EventMarked      = "event.marked"  // order paid, not committed
	EventCommitted   = "event.committed"
	CheckoutOpened   = "checkout.opened" // opened at the provider, not in the ledger
	CheckoutClosed   = "checkout.closed" // closed at the provider, not in the ledger
	RefundSent       = "refund.sent"     // refunded at the provider, not in the ledger
	ExpireMarked     = "expire.marked"   // orders expired, not counted, not committed
	ExpireCounted    = "expire.counted"
	ExpireCommitted  = "expire.committed"
	CancelMarked     = "cancel.marked"
	CancelCommitted  = "cancel.committed"
	ReturnAsked      = "return.asked"  // before the unit is returned to the inventory
	ReturnGiven      = "return.given"  // returned, not recorded in the ledger
	ReturnMarked     = "return.marked" // recorded in the ledger
	StockLedger      = "stock.ledger"  // added in the ledger, not in the inventory
	StockInventory   = "stock.inventory"
	RecoverClosed    = "recover.closed"  // the epoch is closed
	RecoverDrained   = "recover.drained" // its stream is drained
	RecoverEpoch     = "recover.epoch"   // the next epoch is assigned
	RecoverOpened    = "recover.opened"  // the inventory is open, not recorded in the ledger
	AdmitTaken       = "admit.taken"     // tokens taken from the limit, no waiter admitted
	AdmitDone        = "admit.done"
)
