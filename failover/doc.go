// Package failover is a [weir.Store] over a store that may be slow or gone: it bounds
// the time of a decision, stops asking a store that does not answer, and decides by a
// fallback meanwhile.
package failover
