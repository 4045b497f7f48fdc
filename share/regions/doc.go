// Package regions divides limits among regions, each with a store of its own.
//
//	store, err := regions.New(own, rest, regions.Config{Part: 40, Rest: 20})
//
// Each region has a declared part of every limit, in percent. It decides by that part in its own
// store, and keeps it while it is disconnected. What the parts leave is the rest. All regions
// share it by a second store, such as a share.Store on a ledger that all regions reach. A request
// that the own part denies is decided by the rest.
//
// # Guarantees
//
// The parts and the rest are limits, and together not more than the limit. Each request is charged
// to one of them. Therefore everything that all regions admit, one limit admits too, if each store
// keeps its own limit. No message between regions is needed for that, so none can be lost.
//
// Buckets and logs refill by the clocks of several stores. The parts refill more slowly by a
// thousandth, so clocks whose rates differ by as much give no excess. Windows are by the At of
// decisions: the clocks of the stores must be synchronized.
//
// # Proof
//
// A bucket has rate r, capacity b and level l. Its parts and the rest are buckets, and their levels sum
// to s. Their rates sum to at most r/1.001, and their capacities to at most b.
//
//   - At first s is at most b, which is l.
//   - In a time t by the clock of l, each clock passes at most 1.001·t. So s grows by at most r·t, and
//     stays at most l.
//   - An admission takes as many tokens from one level as from l, so l has them. A return adds at most
//     as many to s as to l.
//   - Each of the limits holds for itself, also the rest, by the proof of shares.
//
// Counts and slots are sums. A log keeps its entries longer by a thousandth.
//
// # Limits
//
// A request fits the own part or the rest as a whole. One whose cost is larger than both is denied.
// Reservations and slots of concurrency are those of the own part.
package regions
