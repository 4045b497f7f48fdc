package weirgrpc_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/floodweir/weir"
	weirgrpc "github.com/floodweir/weir/contrib/grpc"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

const (
	sayMethod  = "/test.Echo/Say"
	chatMethod = "/test.Echo/Chat"
)

type text = wrapperspb.StringValue

// echo is a service of a unary call and one that streams both ways.
type echo struct {
	say  func(context.Context, *text) (*text, error)
	chat func(grpc.ServerStream) error
}

func (e echo) orDefault() echo {
	if e.say == nil {
		e.say = func(_ context.Context, in *text) (*text, error) { return in, nil }
	}
	if e.chat == nil {
		e.chat = func(s grpc.ServerStream) error {
			for {
				var in text
				if err := s.RecvMsg(&in); err != nil {
					return ignoreEOF(err)
				}
				if err := s.SendMsg(&in); err != nil {
					return err
				}
			}
		}
	}
	return e
}

func (e echo) desc() *grpc.ServiceDesc {
	e = e.orDefault()
	return &grpc.ServiceDesc{
		ServiceName: "test.Echo",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{
			MethodName: "Say",
			Handler: func(srv any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
				in := new(text)
				if err := dec(in); err != nil {
					return nil, err
				}
				handler := func(ctx context.Context, req any) (any, error) { return e.say(ctx, req.(*text)) }
				if interceptor == nil {
					return handler(ctx, in)
				}
				return interceptor(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: sayMethod}, handler)
			},
		}},
		Streams: []grpc.StreamDesc{{
			StreamName: "Chat", ClientStreams: true, ServerStreams: true,
			Handler: func(_ any, s grpc.ServerStream) error { return e.chat(s) },
		}},
	}
}

// serve is a connection to e behind limits, over the loopback.
func serve(t testing.TB, limits *weirgrpc.Server, e echo, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	return serveBehind(t, e, []grpc.ServerOption{grpc.ChainUnaryInterceptor(limits.Unary), grpc.ChainStreamInterceptor(limits.Stream)}, opts...)
}

func serveBehind(t testing.TB, e echo, so []grpc.ServerOption, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(so...)
	s.RegisterService(e.desc(), nil)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return dial(t, l.Addr().String(), opts...)
}

func dial(t testing.TB, target string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	cc, err := grpc.NewClient(target, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}

func say(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
	var out text
	return cc.Invoke(ctx, sayMethod, wrapperspb.String("hello"), &out, opts...)
}

func chat(ctx context.Context, t testing.TB, cc *grpc.ClientConn) grpc.ClientStream {
	t.Helper()
	cs, err := cc.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, chatMethod)
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

// exchange sends a message and returns how it came back.
func exchange(cs grpc.ClientStream) error {
	_ = cs.SendMsg(wrapperspb.String("hello")) // RecvMsg says why it failed
	return cs.RecvMsg(new(text))
}

// details returns what an error says beside its code.
func details(err error) (retry *errdetails.RetryInfo, quota *errdetails.QuotaFailure) {
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			retry = d
		case *errdetails.QuotaFailure:
			quota = d
		}
	}
	return retry, quota
}

// still returns a memory store whose clock does not advance.
func still(t testing.TB) weir.Store {
	s, _ := fakestore.Clocked(t)
	return s
}

// set returns a set of policies, whose default key is the client's address.
func set(t testing.TB, cs ...policy.Config) *policy.Set {
	t.Helper()
	var ps []*policy.Policy
	for i, c := range cs {
		if c.Name == "" {
			c.Name = fmt.Sprint("p", i+1)
		}
		if c.Key == nil {
			c.Key = []policy.KeyPart{{Source: policy.ClientIP}}
		}
		p, err := policy.New(c)
		if err != nil {
			t.Fatal(err)
		}
		ps = append(ps, p)
	}
	s, err := policy.NewSet(ps...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func limits(texts ...string) []weir.Limit {
	var ls []weir.Limit
	for _, text := range texts {
		ls = append(ls, weir.MustLimit(text))
	}
	return ls
}

func server(t testing.TB, store weir.Store, s *policy.Set, c weirgrpc.Config) *weirgrpc.Server {
	t.Helper()
	limits, err := weirgrpc.New(store, s, c)
	if err != nil {
		t.Fatal(err)
	}
	return limits
}

// left returns how much a key has left of a limit.
func left(t testing.TB, store weir.Store, key, limit string) int64 {
	t.Helper()
	d, err := store.Do(t.Context(), weir.Request{Verb: weir.Peek, Key: key, Limit: fakestore.PolicyLimit(t, limit), N: 1})
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

// events record what a Server observed.
type events struct {
	mu    sync.Mutex
	noted []string
}

func (e *events) observe(_ context.Context, a policy.Attributes, ev enforce.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	text := fmt.Sprint(a.Path(), " ", ev.Policy.Name(), " ", ev.Outcome)
	if ev.Shadow {
		text += " shadow"
	}
	e.noted = append(e.noted, text)
}

func (e *events) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return fmt.Sprint(e.noted)
}
