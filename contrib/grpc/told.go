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

// told is the metadata of a call in which policies look for its cost. Its methods work
// on a nil told too, which keeps nothing.
type told struct {
	names []string // to keep, in lower case

	mu       sync.Mutex
	headers  map[string]string // guarded by mu
	trailers map[string]string // guarded by mu
}

// watch is a context whose metadata is noted; told is nil if no policy looks for any.
func (s *Server) watch(ctx context.Context) (context.Context, *told) {
	ts := grpc.ServerTransportStreamFromContext(ctx)
	if len(s.costs) == 0 || ts == nil {
		return ctx, nil
	}
	t := &told{names: s.costs, headers: map[string]string{}, trailers: map[string]string{}}
	return grpc.NewContextWithServerTransportStream(ctx, &watched{ts, t}), t
}

func (t *told) header(md metadata.MD) {
	if t != nil {
		t.note(t.headers, md)
	}
}

func (t *told) trailer(md metadata.MD) {
	if t != nil {
		t.note(t.trailers, md)
	}
}

// note keeps the last value of every name.
func (t *told) note(in map[string]string, md metadata.MD) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, values := range md {
		if name = strings.ToLower(name); len(values) > 0 && slices.Contains(t.names, name) {
			in[name] = values[len(values)-1]
		}
	}
}

// tells is the cost in the trailer of a name, or else in the header.
func (t *told) tells(s policy.Settle) (int64, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := strings.ToLower(s.Header)
	text, ok := t.trailers[name]
	if !ok {
		text = t.headers[name]
	}
	return rpclimit.Cost(text)
}

// watched notes the metadata that a handler sets through its context.
type watched struct {
	grpc.ServerTransportStream
	told *told
}

func (w *watched) SetHeader(md metadata.MD) error {
	w.told.header(md)
	return w.ServerTransportStream.SetHeader(md)
}

func (w *watched) SendHeader(md metadata.MD) error {
	w.told.header(md)
	return w.ServerTransportStream.SendHeader(md)
}

func (w *watched) SetTrailer(md metadata.MD) error {
	w.told.trailer(md)
	return w.ServerTransportStream.SetTrailer(md)
}
