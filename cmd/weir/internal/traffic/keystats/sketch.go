package keystats

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/floodweir/weir/policy"
)

const (
	sketchKeys = 1024
	textBytes  = 64
	idBytes    = 12 // of policy.KeyID
)

// A sketch counts the keys with the largest counts.
//
// The idea (Space-Saving): it monitors sketchKeys keys. A new key replaces the key with the
// smallest count, inherits the count, and records it as its error.
//
//	monitored key     count - err <= true count <= count
//	any other key     true count <= the smallest count <= total/sketchKeys
//
// Source: Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent and Top-k Elements in
// Data Streams, 2005. We deviate in two ways. The smallest count is found by a heap, because
// records have weights. Keys are compared by a hash of 64 bits.
type sketch struct {
	n      int
	heap   [sketchKeys]heapNode // the smallest count first
	hashes [sketchKeys]uint64   // by slot
	keys   [sketchKeys]sketchKey
	index  index
}

// A heapNode is a key of the heap.
type heapNode struct {
	count uint32
	slot  uint16
}

// A sketchKey is a key by slot.
type sketchKey struct {
	err  uint32
	node uint16 // in the heap
	text keyText
}

// add adds a weight to the count of a key.
func (s *sketch) add(hash uint64, key string, weight uint32) {
	if slot, ok := s.index.find(&s.hashes, hash); ok {
		node := s.keys[slot].node
		s.heap[node].count = saturate(s.heap[node].count, weight)
		s.down(int(node))
		return
	}
	if s.n < sketchKeys {
		slot := uint16(s.n)
		s.n++
		s.place(int(slot), heapNode{weight, slot})
		s.monitor(slot, hash, key, 0)
		s.up(int(slot))
		return
	}
	least := &s.heap[0]
	s.index.remove(&s.hashes, least.slot)
	s.monitor(least.slot, hash, key, least.count)
	least.count = saturate(least.count, weight)
	s.down(0)
}

// monitor assigns a slot to a key.
func (s *sketch) monitor(slot uint16, hash uint64, key string, err uint32) {
	s.hashes[slot] = hash
	s.index.insert(&s.hashes, slot)
	s.keys[slot].err = err
	s.keys[slot].text.set(key)
}

func (s *sketch) place(i int, node heapNode) {
	s.heap[i] = node
	s.keys[node.slot].node = uint16(i)
}

// down moves the node at i below smaller ones.
func (s *sketch) down(i int) {
	node := s.heap[i]
	for {
		child := 2*i + 1
		if child+1 < s.n && s.heap[child+1].count < s.heap[child].count {
			child++
		}
		if child >= s.n || s.heap[child].count >= node.count {
			break
		}
		s.place(i, s.heap[child])
		i = child
	}
	s.place(i, node)
}

// up moves the node at i above larger ones.
func (s *sketch) up(i int) {
	node := s.heap[i]
	for i > 0 && s.heap[(i-1)/2].count > node.count {
		s.place(i, s.heap[(i-1)/2])
		i = (i - 1) / 2
	}
	s.place(i, node)
}

// reset removes all keys.
func (s *sketch) reset() {
	s.n = 0
	clear(s.index.slots[:])
}

// summary returns the counts of s.
func (s *sketch) summary() summary {
	var sum summary
	if s.n == sketchKeys {
		sum.least = uint64(s.heap[0].count)
	}
	for _, node := range s.heap[:s.n] {
		k := &s.keys[node.slot]
		sum.keys = append(sum.keys, keyCount{s.hashes[node.slot], uint64(node.count), uint64(k.err), &k.text})
	}
	return sum
}

// A summary has the counts of one sketch, or of several that are merged.
type summary struct {
	least uint64 // any key that is not in keys has at most this count
	keys  []keyCount
}

// A keyCount is a key whose true count is from count-err to count.
type keyCount struct {
	hash       uint64
	count, err uint64
	text       *keyText
}

// mergeSummaries returns at most most keys of the union, in order of their counts.
//
// A key that a summary lacks has at most its least count there, so that is added to count and
// error. The bounds of a sketch hold for the result, with the sum of all least counts.
//
// Source: Agarwal, Cormode, Huang, Phillips, Wei, Yi: Mergeable Summaries, 2012.
func mergeSummaries(all []summary, most int) summary {
	type merged struct {
		keyCount
		least uint64 // of the summaries with the key
	}
	var sum summary
	found := map[uint64]*merged{}
	for _, s := range all {
		sum.least += s.least
		for _, k := range s.keys {
			m := found[k.hash]
			if m == nil {
				m = &merged{keyCount: keyCount{hash: k.hash, text: k.text}}
				found[k.hash] = m
			}
			m.count, m.err, m.least = m.count+k.count, m.err+k.err, m.least+s.least
		}
	}
	for _, m := range found {
		missing := sum.least - m.least
		m.count, m.err = m.count+missing, m.err+missing
		sum.keys = append(sum.keys, m.keyCount)
	}
	slices.SortFunc(sum.keys, func(a, b keyCount) int { return compareKeys(&a, &b) })
	sum.cut(most)
	return sum
}

// compareKeys orders keys by count, largest first.
func compareKeys(a, b *keyCount) int {
	switch {
	case a.count != b.count:
		return map[bool]int{true: -1, false: 1}[a.count > b.count]
	case a.hash != b.hash:
		return map[bool]int{true: -1, false: 1}[a.hash < b.hash]
	}
	return 0
}

// cut removes the keys after the first n.
func (s *summary) cut(n int) {
	if len(s.keys) > n {
		s.least = max(s.least, s.keys[n].count)
		s.keys = s.keys[:n]
	}
}

// A keyText has the text of a key after its bucket. A longer text has shorter values and then the
// policy.KeyID of the key. Clients choose keys, so their length is bounded.
type keyText struct {
	length uint8
	cut    bool
	bytes  [textBytes]byte
}

// set makes t the text of a key.
func (t *keyText) set(key string) {
	_, text, _ := strings.Cut(key, "|")
	t.cut = len(text) > textBytes
	if !t.cut {
		t.length = uint8(copy(t.bytes[:], text))
		return
	}
	b := append(t.bytes[:0], policy.KeyID(key)...)
	values, _ := policy.KeyValues(key)
	for i, v := range values {
		room := (textBytes-len(b))/(len(values)-i) - len("|64:")
		if room < 1 {
			break
		}
		if v == "" {
			b = append(b, "|-"...)
			continue
		}
		v = v[:min(len(v), room)]
		b = append(b, '|')
		b = strconv.AppendInt(b, int64(len(v)), 10)
		b = append(append(b, ':'), v...)
	}
	t.length = uint8(len(b))
}

// key returns the key in a bucket, which is whole unless t is cut.
func (t *keyText) key(bucket string) string {
	text := string(t.bytes[:t.length])
	if t.cut {
		return bucket + text[idBytes:]
	}
	return bucket + "|" + text
}

// id returns the policy.KeyID of the key.
func (t *keyText) id() string {
	if t.cut {
		return string(t.bytes[:idBytes])
	}
	return policy.KeyID(t.key(""))
}

// An index finds the slots of hashes: an open-addressing table of slot + 1.
type index struct {
	slots [2 * sketchKeys]uint16
}

const indexMask = 2*sketchKeys - 1

func (x *index) find(hashes *[sketchKeys]uint64, hash uint64) (slot uint16, ok bool) {
	for i := hash & indexMask; x.slots[i] != 0; i = (i + 1) & indexMask {
		if slot := x.slots[i] - 1; hashes[slot] == hash {
			return slot, true
		}
	}
	return 0, false
}

func (x *index) insert(hashes *[sketchKeys]uint64, slot uint16) {
	i := hashes[slot] & indexMask
	for x.slots[i] != 0 {
		i = (i + 1) & indexMask
	}
	x.slots[i] = slot + 1
}

// remove removes a slot, and moves later ones of its run so that find needs no marks.
func (x *index) remove(hashes *[sketchKeys]uint64, slot uint16) {
	i := hashes[slot] & indexMask
	for x.slots[i] != slot+1 {
		i = (i + 1) & indexMask
	}
	for j := (i + 1) & indexMask; x.slots[j] != 0; j = (j + 1) & indexMask {
		home := hashes[x.slots[j]-1] & indexMask
		if (j-home)&indexMask >= (j-i)&indexMask {
			x.slots[i] = x.slots[j]
			i = j
		}
	}
	x.slots[i] = 0
}

// saturate returns the sum, at most the largest number.
func saturate(a, b uint32) uint32 {
	if a > math.MaxUint32-b {
		return math.MaxUint32
	}
	return a + b
}
