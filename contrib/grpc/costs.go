package weirgrpc

import (
	"context"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/rpclimit"
)

// costs records the metadata in which policies look for the cost of a call. A nil costs
// records nothing.
type costs struct {
	names []string // to record, in lower case

	mu       sync.Mutex
	headers  map[string]string // guarded by mu
	trailers map[string]string // guarded by mu
}

// watch returns a context whose metadata is recorded, or ctx and nil if no policy of the call
// reads a cost.
func (c *call) watch(ctx context.Context) (context.Context, *costs) {
	var names []string
	for p := range c.pass.Settles() {
		if name := p.Config().Settle.Header; name != "" {
			names = append(names, strings.ToLower(name))
		}
	}
	ts := grpc.ServerTransportStreamFromContext(ctx)
	if len(names) == 0 || ts == nil {
		return ctx, nil
	}
	t := &costs{names: names, headers: map[string]string{}, trailers: map[string]string{}}
	return grpc.NewContextWithServerTransportStream(ctx, &watched{ts, t}), t
}

func (t *costs) header(md metadata.MD) {
	if t != nil {
		t.record(t.headers, md)
	}
}

func (t *costs) trailer(md metadata.MD) {
	if t != nil {
		t.record(t.trailers, md)
	}
}

// record keeps the last value of every name.
func (t *costs) record(in map[string]string, md metadata.MD) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, values := range md {
		if name = strings.ToLower(name); len(values) > 0 && slices.Contains(t.names, name) {
			in[name] = values[len(values)-1]
		}
	}
}

// cost returns the cost in a trailer, or else in a header.
func (t *costs) cost(s policy.Settle) (int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := strings.ToLower(s.Header)
	text, ok := t.trailers[name]
	if !ok {
		text = t.headers[name]
	}
	return rpclimit.Cost(text)
}

// watched records the metadata that a handler sets through its context.
type watched struct {
	grpc.ServerTransportStream
	costs *costs
}

func (w *watched) SetHeader(md metadata.MD) error {
	w.costs.header(md)
	return w.ServerTransportStream.SetHeader(md)
}

func (w *watched) SendHeader(md metadata.MD) error {
	w.costs.header(md)
	return w.ServerTransportStream.SendHeader(md)
}

func (w *watched) SetTrailer(md metadata.MD) error {
	w.costs.trailer(md)
	return w.ServerTransportStream.SetTrailer(md)
}
