package traffic

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode"

	"github.com/floodweir/weir"
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

// Store returns next, and counts what it decides about requests that consume tokens.
func (s *Source) Store(next weir.Store) weir.Store { return &countedStore{s, next} }

type countedStore struct {
	source *Source
	next   weir.Store
}

// Do implements weir.Store.
func (c *countedStore) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	start := time.Now()
	d, err := c.next.Do(ctx, r)
	if consumes(r.Verb) {
		c.count(ctx, d.OK, err, time.Since(start))
	}
	return d, err
}

// DoAll implements weir.Store. The requests are one decision.
func (c *countedStore) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	start := time.Now()
	ok, err := c.next.DoAll(ctx, rs, ds)
	for i := range rs {
		if consumes(rs[i].Verb) {
			c.count(ctx, ok, err, time.Since(start))
			break
		}
	}
	return ok, err
}

func consumes(v weir.Verb) bool { return v == weir.Take || v == weir.TakeUpTo || v == weir.Reserve }

func (c *countedStore) count(ctx context.Context, ok bool, err error, took time.Duration) {
	switch {
	case err != nil && (errors.Is(err, weir.ErrInvalid) || errors.Is(ctx.Err(), context.Canceled)): // no decision about the client
	case err != nil:
		c.source.Count(Overloaded, 0)
	case ok:
		c.source.Count(Admitted, took)
	default:
		c.source.Count(Denied, took)
	}
}
