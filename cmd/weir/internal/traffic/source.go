package traffic

import (
	"strings"
	"time"
	"unicode"
)

// A Source counts the decisions of an interface without policies as those of a policy with its
// name. It has no keys.
type Source struct {
	r    *Recorder
	name string
}

// Source returns a source. No policy can have its name if that contains a colon, as in
// "grpc:shop".
func (r *Recorder) Source(name string) *Source {
	name = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return '_'
		}
		return c
	}, strings.ToValidUTF8(name[:min(len(name), maxName)], "_"))
	return &Source{r, name}
}

// Count counts a decision in a column. took is the time of the store's decision; 0 if unknown.
func (s *Source) Count(column int, took time.Duration) {
	known := s.r.entry(s, s.name)
	shard := s.r.free.Get().(*shard)
	n := &known.counter.shards[shard.index].n
	n[column].Add(1)
	if took > 0 {
		shard.latency[latencyBucket(took)].Add(1)
	}
	s.r.free.Put(shard)
}
