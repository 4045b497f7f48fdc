package keystats

import "math"

const (
	sampleKeys    = 1024
	periodSeconds = 120

	// StepSeconds is the length of the steps in which denials are counted. It divides
	// periodSeconds.
	StepSeconds = 10
)

// A keySample has the requests by second, and the denials by step, of the keys with the smallest
// hashes.
//
// The idea: a key belongs to the sample if its hash is below theta, whatever its number of
// requests. Theta begins at the largest hash. If there are more than sampleKeys keys, theta
// becomes the largest hash of the sample, whose key leaves it. So a key is either in the sample
// from its first request, or not at all. The share of all keys is about theta/2^64.
//
// Samples of other periods and other nodes merge exactly: the merged theta is the smallest, and
// keys from it on leave.
//
// Source: Gibbons: Distinct Sampling for Highly-Accurate Answers to Distinct Values Queries and
// Event Reports, 2001.
type keySample struct {
	n       int
	theta   uint64
	hashes  [sampleKeys]uint64 // by slot
	denied  [sampleKeys][periodSeconds / StepSeconds]uint16
	seconds [sampleKeys][periodSeconds]uint16
	index   index
}

// add counts a request of a key at a second of the period.
func (s *keySample) add(hash uint64, second int, denied bool) {
	if hash >= s.theta {
		return
	}
	slot, ok := s.index.find(&s.hashes, hash)
	if !ok {
		if slot, ok = s.free(hash); !ok {
			return
		}
		s.hashes[slot] = hash
		clear(s.denied[slot][:])
		clear(s.seconds[slot][:])
		s.index.insert(&s.hashes, slot)
	}
	if n := &s.seconds[slot][second]; *n < math.MaxUint16 {
		*n++
	}
	if n := &s.denied[slot][second/StepSeconds]; denied && *n < math.MaxUint16 {
		*n++
	}
}

// free returns a slot for a key with a new hash, unless it leaves the sample itself.
func (s *keySample) free(hash uint64) (slot uint16, ok bool) {
	if s.n < sampleKeys {
		s.n++
		return uint16(s.n - 1), true
	}
	largest := 0
	for i, h := range s.hashes {
		if h > s.hashes[largest] {
			largest = i
		}
	}
	if hash > s.hashes[largest] {
		s.theta = hash
		return 0, false
	}
	s.theta = s.hashes[largest]
	s.index.remove(&s.hashes, uint16(largest))
	return uint16(largest), true
}

// reset removes all keys.
func (s *keySample) reset() {
	s.n, s.theta = 0, math.MaxUint64
	clear(s.index.slots[:])
}

// series returns the requests and denials of all keys. first is the first second of the period.
func (s *keySample) series(first int64) []keySeries {
	all := make([]keySeries, s.n)
	for slot := range all {
		all[slot] = keySeries{hash: s.hashes[slot]}
		for step, n := range s.denied[slot] {
			if n > 0 {
				all[slot].denials = append(all[slot].denials, tick{first/StepSeconds + int64(step), uint64(n)})
			}
		}
		for second, n := range s.seconds[slot] {
			if n > 0 {
				all[slot].ticks = append(all[slot].ticks, tick{first + int64(second), uint64(n)})
			}
		}
	}
	return all
}

// A keySeries has the requests of a key by second, and its denials by step.
type keySeries struct {
	hash    uint64
	ticks   []tick // in order of time
	denials []tick // their seconds are numbers of steps
}

// A tick is a second with requests, or a step with denials.
type tick struct {
	second int64
	n      uint64
}

// requests returns the number of requests.
func (k *keySeries) requests() (n uint64) {
	for _, t := range k.ticks {
		n += t.n
	}
	return n
}

// mergeTicks returns the sum of two series.
func mergeTicks(a, b []tick) []tick {
	if len(a) == 0 || len(b) == 0 || a[len(a)-1].second < b[0].second {
		return append(a, b...)
	}
	sum := make([]tick, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].second < b[0].second:
			sum, a = append(sum, a[0]), a[1:]
		case a[0].second > b[0].second:
			sum, b = append(sum, b[0]), b[1:]
		default:
			sum = append(sum, tick{a[0].second, a[0].n + b[0].n})
			a, b = a[1:], b[1:]
		}
	}
	return append(append(sum, a...), b...)
}

// mergeSeries returns the sum of several series of keys, without those whose hash is theta or more.
func mergeSeries(theta uint64, all ...[]keySeries) []keySeries {
	sum := map[uint64]*keySeries{}
	var order []*keySeries
	for _, part := range all {
		for i := range part {
			k := &part[i]
			if k.hash >= theta {
				continue
			}
			m := sum[k.hash]
			if m == nil {
				m = &keySeries{hash: k.hash}
				sum[k.hash] = m
				order = append(order, m)
			}
			m.ticks, m.denials = mergeTicks(m.ticks, k.ticks), mergeTicks(m.denials, k.denials)
		}
	}
	merged := make([]keySeries, len(order))
	for i, m := range order {
		merged[i] = *m
	}
	return merged
}
