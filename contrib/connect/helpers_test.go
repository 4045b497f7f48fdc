package weirconnect_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/floodweir/weir"
	weirconnect "github.com/floodweir/weir/contrib/connect"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

const (
	sayProcedure  = "/test.Echo/Say"
	chatProcedure = "/test.Echo/Chat"
)

type (
	text     = wrapperspb.StringValue
	response = connect.Response[text]
	stream   = connect.BidiStream[text, text]
)

// echo is a service of a unary call without side effects, and one that streams both ways.
type echo struct {
	say  func(context.Context, *connect.Request[text]) (*response, error)
	chat func(context.Context, *stream) error
}

func (e echo) handler(opts ...connect.HandlerOption) http.Handler {
	if e.say == nil {
		e.say = func(_ context.Context, r *connect.Request[text]) (*response, error) {
			return connect.NewResponse(r.Msg), nil
		}
	}
	if e.chat == nil {
		e.chat = func(_ context.Context, s *stream) error {
			for {
				m, err := s.Receive()
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return err
				}
				if err := s.Send(m); err != nil {
					return err
				}
			}
		}
	}
	mux := http.NewServeMux()
	mux.Handle(sayProcedure, connect.NewUnaryHandler(sayProcedure, e.say, append(opts, connect.WithIdempotency(connect.IdempotencyNoSideEffects))...))
	mux.Handle(chatProcedure, connect.NewBidiStreamHandler(chatProcedure, e.chat, opts...))
	return mux
}

// A conn is a client of an echo.
type conn struct {
	url  string
	http *http.Client
	opts []connect.ClientOption

	mu    sync.Mutex
	conns []net.Conn // guarded by mu
}

// breakOff closes the connections of c as a crash would.
func (c *conn) breakOff() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.conns {
		_ = one.Close()
	}
}

// serve is a connection to e behind interceptors, over the loopback.
func serve(t testing.TB, e echo, interceptors []connect.Interceptor, opts ...connect.ClientOption) *conn {
	t.Helper()
	s := httptest.NewUnstartedServer(e.handler(connect.WithInterceptors(interceptors...)))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Config.Protocols.SetHTTP1(true)
	s.Start()
	t.Cleanup(s.Close)
	return dial(t, s.URL, opts...)
}

// dial is another connection.
func dial(t testing.TB, url string, opts ...connect.ClientOption) *conn {
	t.Helper()
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	c := &conn{url: url, opts: opts}
	transport := &http.Transport{Protocols: p, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		one, err := new(net.Dialer).DialContext(ctx, network, addr)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.conns = append(c.conns, one)
		return one, err
	}}
	t.Cleanup(transport.CloseIdleConnections)
	c.http = &http.Client{Transport: transport}
	return c
}

func (c *conn) unary(procedure string, opts ...connect.ClientOption) *connect.Client[text, text] {
	opts = append([]connect.ClientOption{connect.WithIdempotency(connect.IdempotencyNoSideEffects)}, append(c.opts, opts...)...)
	return connect.NewClient[text, text](c.http, c.url+procedure, opts...)
}

func (c *conn) say(ctx context.Context, headers ...string) (*response, error) {
	r := connect.NewRequest(wrapperspb.String("hello"))
	for i := 0; i < len(headers); i += 2 {
		r.Header().Set(headers[i], headers[i+1])
	}
	return c.unary(sayProcedure).CallUnary(ctx, r)
}

func (c *conn) chat(ctx context.Context) *connect.BidiStreamForClient[text, text] {
	return connect.NewClient[text, text](c.http, c.url+chatProcedure, c.opts...).CallBidiStream(ctx)
}

// exchange sends a message and returns how it came back.
func exchange(s *connect.BidiStreamForClient[text, text]) error {
	_ = s.Send(wrapperspb.String("hello")) // Receive says why it failed
	_, err := s.Receive()
	return err
}

// one is a stream of one message.
func (c *conn) one(ctx context.Context) error {
	s := c.chat(ctx)
	err := exchange(s)
	_ = s.CloseRequest()
	_ = s.CloseResponse()
	return err
}

// details returns what an error says beside its code.
func details(err error) (retry *errdetails.RetryInfo, quota *errdetails.QuotaFailure, meta http.Header) {
	var e *connect.Error
	if !errors.As(err, &e) {
		return nil, nil, nil
	}
	for _, d := range e.Details() {
		m, _ := d.Value()
		switch m := m.(type) {
		case *errdetails.RetryInfo:
			retry = m
		case *errdetails.QuotaFailure:
			quota = m
		}
	}
	return retry, quota, e.Meta()
}

// code returns that of an error; 0 if there is none.
func code(err error) connect.Code {
	if err == nil {
		return 0
	}
	return connect.CodeOf(err)
}

func all() []policy.KeyPart { return []policy.KeyPart{{Source: policy.Constant, Name: "all"}} }

const everybody = "p1|3:all"

// protocols returns the client options of each protocol.
func protocols() map[string][]connect.ClientOption {
	return map[string][]connect.ClientOption{
		connect.ProtocolConnect: nil, "get": {connect.WithHTTPGet()},
		connect.ProtocolGRPC: {connect.WithGRPC()}, connect.ProtocolGRPCWeb: {connect.WithGRPCWeb()},
	}
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

func server(t testing.TB, store weir.Store, s *policy.Set, c weirconnect.Config) *weirconnect.Server {
	t.Helper()
	limits, err := weirconnect.New(store, s, c)
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
