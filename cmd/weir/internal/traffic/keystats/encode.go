package keystats

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/floodweir/weir/cmd/weir/internal/traffic/internal/decode"
)

const (
	// MaxSample is the largest encoded Sample in bytes.
	MaxSample = 64 << 10

	sampleVersion = 2
	listBytes     = 12 << 10 // of each list of counts, and of the watched keys
	maxNumber     = 1 << 48  // of a count, so that sums of all nodes fit
	maxBucket     = 256
	maxSkew       = 60 // s between the clocks of nodes
)

// ErrInvalid is the error of samples that do not decode or cannot be merged.
var ErrInvalid = errors.New("keystats: invalid encoding")

// Encode returns s in at most MaxSample bytes. If s is larger, its bounds become wider and its
// estimates less exact: it lacks keys with small counts and a part of the sampled keys.
//
// The encoding is the fields of s in order. Numbers are varints, and hashes 8 bytes. Lists and
// texts begin with their length.
func (s *Sample) Encode() []byte {
	b := binary.LittleEndian.AppendUint32([]byte{sampleVersion}, s.seed)
	b = appendBytes(b, s.bucket)
	for _, n := range []uint64{
		uint64(s.from), uint64(s.until - s.from), s.requests, s.denials, s.lost, s.records, s.cost, s.thinned,
	} {
		b = binary.AppendUvarint(b, n)
	}
	b = s.top.append(b)
	b = s.denied.append(b)

	for _, all := range [][]keySeries{s.watched, s.watchedDenied} {
		watched := slices.SortedFunc(slices.Values(all), func(a, b keySeries) int {
			return cmp.Or(cmp.Compare(b.requests(), a.requests()), cmp.Compare(a.hash, b.hash))
		})
		b, _ = s.appendSeries(b, watched, listBytes)
	}

	sampled := slices.SortedFunc(slices.Values(s.sampled), func(a, b keySeries) int { return cmp.Compare(a.hash, b.hash) })
	encoded, n := s.appendSeries(nil, sampled, MaxSample-len(b)-8)
	theta := s.theta
	if n < len(sampled) {
		theta = sampled[n].hash
	}
	b = binary.LittleEndian.AppendUint64(b, theta)
	return append(b, encoded...)
}

func appendBytes[T string | []byte](b []byte, text T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// append appends as many keys as fit into listBytes. The least count is that of the first key that
// does not fit, if it is larger.
func (s *summary) append(b []byte) []byte {
	var keys []byte
	first := summary{s.least, s.keys}
	for i := range s.keys {
		k, fits := &s.keys[i], len(keys)
		keys = binary.LittleEndian.AppendUint64(keys, k.hash)
		keys = binary.AppendUvarint(binary.AppendUvarint(keys, k.count), k.err)
		cut := byte(0)
		if k.text.cut {
			cut = 1
		}
		keys = appendBytes(append(keys, cut), k.text.bytes[:k.text.length])
		if len(keys) > listBytes-2*binary.MaxVarintLen64 {
			keys = keys[:fits]
			first.cut(i)
			break
		}
	}
	b = binary.AppendUvarint(b, first.least)
	return append(binary.AppendUvarint(b, uint64(len(first.keys))), keys...)
}

// appendSeries appends as many of all as fit into most bytes, and returns their number.
func (s *Sample) appendSeries(b []byte, all []keySeries, most int) (encoded []byte, n int) {
	var keys []byte
	for n = range all {
		k, fits := &all[n], len(keys)
		keys = binary.LittleEndian.AppendUint64(keys, k.hash)
		keys = appendTicks(keys, k.ticks, s.from)
		keys = appendTicks(keys, k.denials, s.from/StepSeconds)
		if len(keys) > most-binary.MaxVarintLen64 {
			return append(binary.AppendUvarint(b, uint64(n)), keys[:fits]...), n
		}
	}
	n = len(all)
	return append(binary.AppendUvarint(b, uint64(n)), keys...), n
}

// appendTicks appends ticks from a second or step on. One that follows the last takes the double of
// its number, and another one that plus 1 and the number of seconds or steps between.
func appendTicks(b []byte, ticks []tick, from int64) []byte {
	b = binary.AppendUvarint(b, uint64(len(ticks)))
	last := from - 1
	for _, t := range ticks {
		if gap := t.second - last - 1; gap == 0 {
			b = binary.AppendUvarint(b, 2*t.n)
		} else {
			b = binary.AppendUvarint(binary.AppendUvarint(b, 2*t.n+1), uint64(gap))
		}
		last = t.second
	}
	return b
}

// Decode reads the output of Encode, and nothing else. An error wraps ErrInvalid.
func Decode(data []byte) (*Sample, error) {
	if len(data) > MaxSample {
		return nil, fmt.Errorf("%w: sample: got %d bytes, want at most %d", ErrInvalid, len(data), MaxSample)
	}
	d := decode.Decoder{Data: data}
	if v := d.Byte(); v != sampleVersion {
		return nil, fmt.Errorf("%w: sample: version: got %d, want %d", ErrInvalid, v, sampleVersion)
	}
	s := &Sample{seed: uint32(d.Fixed(4)), bucket: d.Text(maxBucket)}
	s.from = int64(d.Uvarint(1 << 40))
	s.until = s.from + int64(d.Uvarint(window))
	for _, n := range []*uint64{&s.requests, &s.denials, &s.lost, &s.records, &s.cost} {
		*n = d.Uvarint(maxNumber)
	}
	if s.thinned = d.Uvarint(1 << MaxThin); s.thinned == 0 {
		d.Fail("one in: got 0, want 1 or more")
	}
	s.top, s.denied = decodeSummary(&d), decodeSummary(&d)
	s.watched, s.watchedDenied = s.decodeSeries(&d, watchedKeys), s.decodeSeries(&d, watchedKeys)
	s.theta = d.Fixed(8)
	s.sampled = s.decodeSeries(&d, MaxSample/10) // those of all periods; a key has at least 10 bytes
	for i := range s.sampled {
		if hash := s.sampled[i].hash; hash >= s.theta || i > 0 && hash <= s.sampled[i-1].hash {
			d.Fail("sample: got hash %#x, want hashes in order and below %#x", hash, s.theta)
		}
	}
	if len(d.Data) > 0 {
		d.Fail("got %d bytes after the end", len(d.Data))
	}
	if d.Err != nil {
		return nil, fmt.Errorf("%w: sample: %w", ErrInvalid, d.Err)
	}
	return s, nil
}

// decodeSummary returns a list of counts.
func decodeSummary(d *decode.Decoder) summary {
	s := summary{least: d.Uvarint(maxNumber)}
	known := map[uint64]bool{}
	last := uint64(math.MaxUint64)
	for range d.Uvarint(sketchKeys) {
		k := keyCount{hash: d.Fixed(8), count: d.Uvarint(maxNumber), text: &keyText{}}
		k.err = d.Uvarint(k.count)
		cut := d.Byte()
		k.text.cut = cut == 1
		k.text.length = uint8(copy(k.text.bytes[:], d.Bytes(textBytes)))
		switch {
		case cut > 1 || k.text.cut && k.text.length < idBytes:
			d.Fail("key: got a cut text of %d bytes, want %d or more", k.text.length, idBytes)
		case k.count > last || k.count < s.least || known[k.hash]:
			d.Fail("key: got count %d after %d, want each key once, the largest first, and at least %d", k.count, last, s.least)
		}
		if d.Err != nil {
			break
		}
		known[k.hash], last = true, k.count
		s.keys = append(s.keys, k)
	}
	return s
}

// decodeSeries returns at most most series in the window of s.
func (s *Sample) decodeSeries(d *decode.Decoder, most uint64) (all []keySeries) {
	known := map[uint64]bool{}
	for range d.Uvarint(most) {
		k := keySeries{hash: d.Fixed(8)}
		if known[k.hash] {
			d.Fail("series: got hash %#x twice", k.hash)
		}
		known[k.hash] = true
		k.ticks = decodeTicks(d, s.from, s.until)
		k.denials = decodeTicks(d, s.from/StepSeconds, s.until/StepSeconds)
		if d.Err != nil {
			return nil
		}
		all = append(all, k)
	}
	return all
}

// decodeTicks returns ticks of seconds or steps.
func decodeTicks(d *decode.Decoder, from, until int64) (all []tick) {
	last := from - 1
	for range d.Uvarint(window + 1) { // the second after the window has begun
		n, gap := d.Uvarint(2*maxNumber+1), uint64(0)
		if n&1 == 1 {
			if gap = d.Uvarint(window); gap == 0 {
				d.Fail("series: got a gap of 0")
			}
		}
		t := tick{last + 1 + int64(gap), n / 2}
		if t.n == 0 || t.second > until {
			d.Fail("series: got %d at %d, want 1 or more within %d", t.n, t.second-from, until-from)
		}
		if d.Err != nil {
			return nil
		}
		all, last = append(all, t), t.second
	}
	return all
}
