package keystats

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/floodweir/weir/policy"
)

// A Sample has the keys of one policy in the last minutes, of one node or of several.
type Sample struct {
	seed        uint32 // fingerprint
	bucket      string
	from, until int64 // s since the epoch

	requests, denials uint64 // exact
	lost              uint64 // records
	records, cost     uint64 // recorded requests and the sum of their costs
	thinned           uint64 // the largest number of requests that stand for one in the sketches

	top, denied summary
	theta       uint64      // sampled has all keys with smaller hashes
	sampled     []keySeries // each in one of the samples only

	// Keys with the most requests, and with the most denials. They may lack requests.
	watched, watchedDenied []keySeries
}

// Merge returns the keys of several nodes together; nil samples are none. It returns nil if
// all are nil. An error wraps ErrInvalid: the samples are of different policies, of nodes with
// different seeds, or of times that are too far apart.
func Merge(samples ...*Sample) (*Sample, error) {
	samples = slices.DeleteFunc(slices.Clone(samples), func(s *Sample) bool { return s == nil })
	if len(samples) < 2 {
		return append(samples, nil)[0], nil
	}
	first := samples[0]
	m := &Sample{seed: first.seed, from: math.MaxInt64, theta: math.MaxUint64}
	var top, denied []summary
	var sampled, watched, watchedDenied [][]keySeries
	for _, s := range samples {
		if m.bucket == "" {
			m.bucket = s.bucket
		}
		switch apart := s.until - first.until; {
		case s.seed != first.seed:
			return nil, fmt.Errorf("%w: sample: seed: got samples of nodes with different seeds", ErrInvalid)
		case s.bucket != "" && s.bucket != m.bucket:
			return nil, fmt.Errorf("%w: sample: bucket: got %q and %q", ErrInvalid, m.bucket, s.bucket)
		case apart > maxSkew || apart < -maxSkew:
			return nil, fmt.Errorf("%w: sample: time: got samples %d s apart, want at most %d", ErrInvalid, apart, maxSkew)
		}
		m.from, m.until = min(m.from, s.from), max(m.until, s.until)
		m.requests += s.requests
		m.denials += s.denials
		m.lost += s.lost
		m.records += s.records
		m.cost += s.cost
		m.thinned = max(m.thinned, s.thinned)
		m.theta = min(m.theta, s.theta)
		top, denied = append(top, s.top), append(denied, s.denied)
		sampled, watched, watchedDenied = append(sampled, s.sampled), append(watched, s.watched), append(watchedDenied, s.watchedDenied)
	}
	m.top, m.denied = mergeSummaries(top, sketchKeys), mergeSummaries(denied, sketchKeys)
	m.sampled = mergeSeries(m.theta, sampled...)
	m.watched, m.watchedDenied = mergeSeries(math.MaxUint64, watched...), mergeSeries(math.MaxUint64, watchedDenied...)
	return m, nil
}

// window returns the time that s covers.
func (s *Sample) window() time.Duration { return time.Duration(max(0, s.until-s.from)) * time.Second }

// coverage returns the share of requests that was recorded.
func (s *Sample) coverage() float64 {
	if s.lost == 0 {
		return 1
	}
	return 1 - float64(s.lost)/float64(max(s.requests, s.lost))
}

// Keys has the keys with the most requests and with the most denials.
type Keys struct {
	Window      time.Duration // the time that it covers
	Coverage    float64       // the share of requests that was recorded, from 0 to 1
	OneIn       uint64        // counts are estimates from one in so many requests; 1 if they are exact
	Bound       uint64        // any other key has at most so many requests
	DeniedBound uint64        // and at most so many denials
	Requests    []KeyCount    // most first
	Denied      []KeyCount
}

// A KeyCount has the number of requests or denials of a key: at least Count-Error and at most
// Count.
type KeyCount struct {
	ID           string   // of policy.KeyID
	Values       []string // one for each part of the key; clients choose them
	Whole        bool     // Values are the whole key; false if a hash replaces a credential or a value is cut
	Count, Error uint64
}

// Keys returns at most n keys of each list. The policy hides credentials: see
// policy.KeyPart.IsSecret.
func (s *Sample) Keys(p *policy.Policy, n int) Keys {
	parts := p.Config().Key
	k := Keys{Window: s.window(), Coverage: s.coverage(), OneIn: s.thinned}
	k.Requests, k.Bound = s.list(&s.top, parts, n)
	k.Denied, k.DeniedBound = s.list(&s.denied, parts, n)
	return k
}

// list returns the first n keys of a summary, and the largest count of any other.
func (s *Sample) list(all *summary, parts []policy.KeyPart, n int) (keys []KeyCount, bound uint64) {
	first := summary{all.least, all.keys}
	first.cut(n)
	for i := range first.keys {
		k := &first.keys[i]
		count := KeyCount{ID: k.text.id(), Count: k.count, Error: k.err, Whole: !k.text.cut}
		values, ok := policy.KeyValues(k.text.key(s.bucket))
		if !ok { // a long key, of which only a hash is known
			_, hash, _ := strings.Cut(k.text.key(s.bucket), "|")
			values, count.Whole = []string{hash}, false
		}
		for j, value := range values {
			shown := strings.Map(printable, value)
			if ok && value != "" && j < len(parts) && parts[j].IsSecret() {
				shown = fmt.Sprintf("sha256:%.16x", sha256.Sum256([]byte(value)))
			}
			count.Whole = count.Whole && shown == value
			values[j] = shown
		}
		count.Values = values
		keys = append(keys, count)
	}
	return keys, first.least
}

// printable replaces characters that change a terminal or a page.
func printable(c rune) rune {
	if !unicode.IsPrint(c) {
		return unicode.ReplacementChar
	}
	return c
}

// Key returns the whole key, such as policy.Charge.Key, whose policy.KeyID is the one that is
// reports. ok is false if it is not among the keys of s, or cut.
func (s *Sample) Key(is func(id string) bool) (key string, ok bool) {
	for _, all := range []*summary{&s.denied, &s.top} {
		for i := range all.keys {
			if text := all.keys[i].text; !text.cut && is(text.id()) {
				return text.key(s.bucket), true
			}
		}
	}
	return "", false
}

// A Step has the requests and denials of a key in StepSeconds seconds.
type Step struct{ Requests, Denied uint64 }

// History returns the requests and denials of a key by step, and the first second of the first
// step in s since the epoch. The first and the last step may lack seconds. The counts of a key that
// began to send much in the last minutes can begin later. ok is false if the key is neither in the
// sample of all keys, nor among the 64 with most requests or the 64 with most denials.
func (s *Sample) History(seed uint64, key string) (from int64, steps []Step, ok bool) {
	hash := Hash(seed, key)
	first := s.from / StepSeconds
	for _, all := range [][]keySeries{s.sampled, s.watched, s.watchedDenied} {
		i := slices.IndexFunc(all, func(k keySeries) bool { return k.hash == hash })
		if i < 0 || s.until <= s.from {
			continue
		}
		steps = make([]Step, (s.until-1)/StepSeconds-first+1)
		for _, t := range all[i].ticks {
			if t.second < s.until {
				steps[t.second/StepSeconds-first].Requests += t.n
			}
		}
		for _, t := range all[i].denials {
			if at := t.second - first; at < int64(len(steps)) { // those of the current second, too
				steps[at].Denied = min(t.n, steps[at].Requests)
			}
		}
		return first * StepSeconds, steps, true
	}
	return 0, nil, false
}
