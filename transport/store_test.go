package transport_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/transport"
)

// TestStoreError checks OnStoreError.
func TestStoreError(t *testing.T) {
	broken := fakestore.Store{All: func(context.Context, []weir.Request, []weir.Decision) (bool, error) {
		return false, weir.ErrUnavailable
	}}
	for mode, sent := range map[policy.FailMode]int{policy.Closed: 0, policy.Open: 1} {
		s := &server{}
		var events transport.Event
		rt := open(t, transport.Config{Base: s, Store: broken, Limits: limits("1/s", "9/24h"), OnStoreError: mode, MaxWait: time.Hour,
			Observe: func(_ *http.Request, e transport.Event) { events = e }})
		_, err := get(t, rt, api)
		if s.seen() != sent || !errors.Is(events.Err, weir.ErrUnavailable) {
			t.Errorf("%q: %d sent, event %+v", mode, s.seen(), events)
		}
		if mode != policy.Closed {
			if err != nil || events.Outcome != enforce.FailedOpen {
				t.Errorf("%q: %v, event %s", mode, err, events.Outcome)
			}
		} else if !errors.Is(err, transport.ErrUndecided) || !errors.Is(err, weir.ErrUnavailable) || errors.Is(err, transport.ErrDenied) || events.Outcome != enforce.FailedClosed {
			t.Errorf("%q: %v, event %s", mode, err, events.Outcome)
		}
	}
}

// TestLocal checks that by default the limits in the memory of the process decide while the
// store does not. An overload of the process fails the request in every mode.
func TestLocal(t *testing.T) {
	failure := weir.ErrUnavailable
	broken := fakestore.Store{
		One: func(context.Context, weir.Request) (weir.Decision, error) { return weir.Decision{}, failure },
		All: func(context.Context, []weir.Request, []weir.Decision) (bool, error) { return false, failure },
	}
	for _, mode := range []policy.FailMode{"", policy.Local} {
		s := &server{}
		var event transport.Event
		rt := open(t, transport.Config{Base: s, Store: broken, Limits: limits("2/h", "9/24h"), OnStoreError: mode, MaxWait: weir.NoWait,
			Observe: func(_ *http.Request, e transport.Event) { event = e }})
		for i := range 3 {
			_, err := get(t, rt, api)
			if denied := i == 2; errors.Is(err, transport.ErrDenied) != denied || (err != nil) != denied || event.Decision.Degraded != policy.Local {
				t.Errorf("%q: request %d: %v, %+v, want a decision of mode local", mode, i, err, event)
			}
		}
	}
	failure = &weir.OverloadError{Reason: "busy"}
	for _, mode := range []policy.FailMode{"", policy.Local, policy.Open, policy.Closed} {
		s := &server{}
		var event transport.Event
		rt := open(t, transport.Config{Base: s, Store: broken, Limits: limits("2/h"), OnStoreError: mode, MaxWait: weir.NoWait,
			Observe: func(_ *http.Request, e transport.Event) { event = e }})
		if _, err := get(t, rt, api); !errors.Is(err, transport.ErrUndecided) || !errors.Is(err, weir.ErrOverloaded) || s.seen() != 0 || event.Outcome != enforce.Overloaded {
			t.Errorf("%q: %v, %s, %d sent, want overloaded", mode, err, event.Outcome, s.seen())
		}
	}
}

// TestStoreErrorOfContext checks that a context that ends while the store is asked is no store
// error.
func TestStoreErrorOfContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &server{}
	store := fakestore.Store{All: func(ctx context.Context, _ []weir.Request, _ []weir.Decision) (bool, error) {
		cancel()
		return false, context.Cause(ctx)
	}}
	rt := open(t, transport.Config{Base: s, Store: store, Limits: limits("1/s"), OnStoreError: policy.Open})
	if _, err := do(rt, request(t, "GET", api, "").WithContext(ctx)); !errors.Is(err, context.Canceled) || errors.Is(err, transport.ErrUndecided) || s.seen() != 0 {
		t.Errorf("%v, %d sent", err, s.seen())
	}
}

// TestReturnUnsent checks that the charge of a request without a connection is returned, if
// ReturnUnsent is set.
func TestReturnUnsent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // so that no server listens there
	reset := roundTripper(func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset by peer")}
	})
	dial := &http.Transport{}
	for _, c := range []struct {
		name   string
		base   http.RoundTripper
		unsent bool
		left   int64
	}{
		{"given back", dial, true, 10}, {"kept", dial, false, 9}, {"may have been sent", reset, true, 9},
	} {
		store := fakestore.Memory(t)
		rt := open(t, transport.Config{Base: c.base, Store: store, Limits: limits("10/24h", "100/48h"), ReturnUnsent: c.unsent})
		if _, err := get(t, rt, "http://"+l.Addr().String()); err == nil {
			t.Fatal("sent without a server")
		}
		lim, err := weir.New(store, weir.MustLimit("10/24h"), weir.Config{Prefix: transport.DefaultPrefix})
		if err != nil {
			t.Fatal(err)
		}
		if d, err := lim.Peek(t.Context(), l.Addr().String(), 1); err != nil || d.Remaining != c.left {
			t.Errorf("%s: %d left, want %d (%v)", c.name, d.Remaining, c.left, err)
		}
	}
}

// TestReturnedAt checks that tokens go back to the instant at which they were taken.
func TestReturnedAt(t *testing.T) {
	store := fakestore.Memory(t)
	var taken, returned time.Time
	watched := fakestore.Store{All: func(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
		ok, err := store.DoAll(ctx, rs, ds)
		if rs[0].Verb == weir.Return {
			returned = rs[0].At
		} else {
			taken = ds[0].At
		}
		return ok, err
	}}
	base := roundTripper(func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Err: errors.New("no route")}
	})
	rt := open(t, transport.Config{Base: base, Store: watched, Limits: limits("10/24h"), ReturnUnsent: true})
	if _, err := get(t, rt, api); err == nil || taken.IsZero() || !returned.Equal(taken) {
		t.Errorf("taken at %v, returned at %v (%v)", taken, returned, err)
	}
}

// TestLocalIsNotReturned checks that tokens which were taken in place of the store, while it was
// unavailable, are not returned to it.
func TestLocalIsNotReturned(t *testing.T) {
	store, down := fakestore.Memory(t), true
	returns := 0
	base := roundTripper(func(*http.Request) (*http.Response, error) {
		down = false
		return nil, &net.OpError{Op: "dial", Err: errors.New("no route")}
	})
	rt := open(t, transport.Config{Base: base, Limits: limits("10/24h"), ReturnUnsent: true,
		Store: fakestore.Around(store, func(_ context.Context, r *weir.Request) error {
			if down {
				return weir.ErrUnavailable
			}
			returns++
			return nil
		}, nil)})
	if _, err := get(t, rt, api); err == nil || down || returns > 0 {
		t.Errorf("get = %v; store down: %v; %d returns", err, down, returns)
	}
}

// TestRepeatedByHTTP2 checks that a request that HTTP/2 repeats, since the server did not
// process it, is charged once, and its connection is that of others too.
func TestRepeatedByHTTP2(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	c := srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	c.NextProtos = []string{"h2"}
	secure, err := tls.Dial("tcp", srv.Listener.Addr().String(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer secure.Close()
	plain, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	for _, conn := range []net.Conn{secure, plain} {
		s := &server{}
		base := roundTripper(func(r *http.Request) (*http.Response, error) {
			trace := httptrace.ContextClientTrace(r.Context())
			for range 3 {
				trace.GotConn(httptrace.GotConnInfo{Conn: conn, Reused: true})
				trace.WroteHeaderField(":authority", []string{r.URL.Host})
				trace.WroteHeaderField(":method", []string{r.Method})
				trace.WroteHeaders()
			}
			return s.response(r, 200), nil
		})
		rt := open(t, transport.Config{Base: base, Limits: limits("2/24h")})
		for i := range 3 {
			if _, err := get(t, rt, api); errors.Is(err, transport.ErrDenied) != (i == 2) {
				t.Errorf("%T: request %d = %v", conn, i, err)
			}
		}
		if _, err := conn.Write([]byte{}); err != nil {
			t.Errorf("%T: the connection is closed: %v", conn, err)
		}
	}
}

// TestRepeatedByTheBase checks that a request that an http.Transport repeats is charged again.
func TestRepeatedByTheBase(t *testing.T) {
	for _, c := range []struct {
		limit string
		ok    bool
		seen  int32
	}{
		{"2/24h", false, 2}, {"3/24h", true, 3},
	} {
		var seen atomic.Int32
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		// The first connection breaks at its second request, after it was read.
		go func() {
			for n := 0; ; n++ {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					in := bufio.NewReader(conn)
					for i := 0; ; i++ {
						r, err := http.ReadRequest(in)
						if err != nil {
							return
						}
						io.Copy(io.Discard, r.Body)
						seen.Add(1)
						if n == 0 && i == 1 {
							return
						}
						io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
					}
				}()
			}
		}()
		base := &http.Transport{}
		rt := open(t, transport.Config{Base: base, Limits: limits(c.limit)})
		url := "http://" + l.Addr().String()
		if _, err := get(t, rt, url); err != nil {
			t.Fatal(err)
		}
		_, err = get(t, rt, url)
		if c.ok && err != nil || !c.ok && !errors.Is(err, transport.ErrDenied) {
			t.Errorf("%s: the second request is %v, want ok %v", c.limit, err, c.ok)
		}
		if _, err := get(t, rt, url); !errors.Is(err, transport.ErrDenied) {
			t.Errorf("%s: the last request is %v, want a denial", c.limit, err)
		}
		if seen.Load() != c.seen {
			t.Errorf("%s: the server saw %d requests, want %d", c.limit, seen.Load(), c.seen)
		}
		base.CloseIdleConnections()
	}
}

// TestClient checks that redirects and HTTP/2 are charged as they go.
func TestClient(t *testing.T) {
	var seen atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		if r.URL.Path == "/old" {
			http.Redirect(w, r, "/new", http.StatusFound)
			return
		}
		io.WriteString(w, r.Proto)
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	rt := open(t, transport.Config{Base: srv.Client().Transport, Limits: limits("5/24h")})
	client := &http.Client{Transport: rt}
	defer client.CloseIdleConnections()
	for i := range 3 {
		resp, err := client.Get(srv.URL + "/old")
		if i == 2 {
			d := denial(t, err)
			if seen.Load() != 5 || d.Server {
				t.Errorf("%+v after %d requests", d, seen.Load())
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		proto, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(proto) != "HTTP/2.0" {
			t.Errorf("proto = %s", proto)
		}
	}
}

// TestWaitByTheClockOfTheStore checks that MaxWait is measured by the clock of the store.
func TestWaitByTheClockOfTheStore(t *testing.T) {
	for _, c := range fakestore.DriftingWaits {
		synctest.Test(t, func(t *testing.T) {
			c.Check(t, func(store weir.Store, maxWait time.Duration) bool {
				rt := open(t, transport.Config{Base: &server{}, Store: store, Limits: limits(c.Limit), MaxWait: maxWait})
				_, err := get(t, rt, api)
				if err != nil {
					denial(t, err)
				}
				return err == nil
			})
		})
	}
}
