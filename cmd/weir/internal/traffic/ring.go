package traffic

import (
	"math/bits"
	"time"
)

// A ring has rows of counts for the last slots.
type ring struct {
	step        int64 // s of a slot
	slots       int
	width       int
	first, last int64 // slots with data, by time; last < first if there are none
	rows        []uint32
}

func newRing(step int64, slots, width int) *ring {
	return &ring{step: step, slots: slots, width: width, last: -1, rows: make([]uint32, slots*width)}
}

// row returns the cells of a slot.
func (r *ring) row(slot int64) []uint32 {
	i := int(slot%int64(r.slots)) * r.width
	return r.rows[i : i+r.width]
}

// at returns the counts of a slot, or nil if it is not in the ring.
func (r *ring) at(slot int64) []uint32 {
	if slot < r.first || slot > r.last || slot <= r.last-int64(r.slots) {
		return nil
	}
	return r.row(slot)
}

// add adds counts to a second. It ignores a second before the oldest slot. Counts saturate.
func (r *ring) add(second int64, counts []uint32) {
	slot := second / r.step
	switch {
	case slot < 0 || r.last >= r.first && slot <= r.last-int64(r.slots):
		return
	case r.last < r.first || slot >= r.last+int64(r.slots):
		clear(r.rows)
		r.first, r.last = slot, slot
	case slot > r.last:
		for s := r.last + 1; s <= slot; s++ {
			clear(r.row(s))
		}
		r.last = slot
		r.first = max(r.first, slot-int64(r.slots)+1)
	case slot < r.first: // of another node; the slots between are clear
		r.first = slot
	}
	row := r.row(slot)
	for i, n := range counts {
		sum, carry := bits.Add32(row[i], n, 0)
		row[i] = sum | -carry
	}
}

// truncate removes the slots after that of a second.
func (r *ring) truncate(second int64) {
	slot := second / r.step
	if slot < r.first {
		clear(r.rows)
		r.first, r.last = 0, -1
		return
	}
	for r.last > slot {
		clear(r.row(r.last))
		r.last--
	}
}

// latencyBuckets is the number of buckets of decision times: from 128 ns to 2 s in steps of about
// 1.7.
const latencyBuckets = 32

// latencyBucket returns the bucket of a duration.
func latencyBucket(d time.Duration) int {
	n := uint64(max(d, 1<<7))
	octave := bits.Len64(n) - 1
	quarter := int(n>>(octave-2)) & 3
	return min((4*(octave-7)+quarter)/3, latencyBuckets-1)
}

// latencyBound returns the lower bound of a bucket in ns.
func latencyBound(bucket int) float64 {
	octave, quarter := 7+3*bucket/4, 3*bucket%4
	return float64(uint64(1)<<octave) * (1 + float64(quarter)/4)
}

// quantile returns a quantile of durations by bucket; 0 if there are none.
func quantile(buckets []uint32, q float64) time.Duration {
	total := uint64(0)
	for _, n := range buckets {
		total += uint64(n)
	}
	rank := q * float64(total)
	for i, n := range buckets {
		if n > 0 && rank <= float64(n) {
			low, high := latencyBound(i), latencyBound(i+1)
			return time.Duration(low + (high-low)*rank/float64(n))
		}
		rank -= float64(n)
	}
	return 0
}
