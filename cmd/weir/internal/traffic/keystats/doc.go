// Package keystats summarizes the keys of the requests of one policy in bounded memory: the keys
// with the most requests, and a sample of all keys.
//
//	c := keystats.NewCollector(seed, now.Unix())
//	c.Add(&keystats.Record{Key: key, Hash: keystats.Hash(seed, key), Weight: 1, Cost: 1})
//	c.EndSecond(now.Unix()+1, 1, 0)
//	sample, err := keystats.Merge(c.Sample(), other)
//	keys := sample.Keys(p, 20)
//	threshold, err := sample.Threshold(weir.MustLimit("12/m"))
//
// Keys above the bound of the sketch are counted, with an error per key. Lighter keys are too many
// to count: Threshold estimates their number from the sample.
//
// A Collector takes at most 3 MB, whatever the keys. A Sample is immutable.
package keystats
