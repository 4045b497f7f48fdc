package rlqs_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// A link is the network between a client and the servers: a proxy that delays and cuts each
// direction. Its fields may be changed while it is used.
type link struct {
	mu       sync.Mutex
	up, down time.Duration // delays, to the server and back
	cutUp    bool          // what is sent meanwhile does not arrive before the cut ends
	cutDown  bool
	changed  chan struct{}
	conns    []*wire
}

func newLink() *link { return &link{changed: make(chan struct{})} }

// set changes the link.
func (l *link) set(change func(*link)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
	close(l.changed)
	l.changed = make(chan struct{})
}

// reset closes all connections.
func (l *link) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.Close()
	}
	l.conns = nil
}

// connect returns the two ends of a new connection.
func (l *link) connect() (client, server net.Conn) {
	up := &stretch{link: l, toServer: true, wake: make(chan struct{}, 1), closed: make(chan struct{})}
	down := &stretch{link: l, wake: make(chan struct{}, 1), closed: make(chan struct{})}
	c, s := &wire{in: down, out: up}, &wire{in: up, out: down}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, c)
	return c, s
}

// state returns the delay of a direction, whether it is cut, and a channel that is closed when that
// changes.
func (l *link) state(toServer bool) (delay time.Duration, cut bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if toServer {
		return l.up, l.cutUp, l.changed
	}
	return l.down, l.cutDown, l.changed
}

// A stretch is one direction of a connection.
type stretch struct {
	link     *link
	toServer bool

	mu     sync.Mutex
	chunks []chunk
	wake   chan struct{}
	once   sync.Once
	closed chan struct{}
}

type chunk struct {
	sent time.Time
	data []byte
}

func (s *stretch) write(data []byte) (int, error) {
	select {
	case <-s.closed:
		return 0, io.ErrClosedPipe
	default:
	}
	s.mu.Lock()
	s.chunks = append(s.chunks, chunk{time.Now(), append([]byte(nil), data...)})
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return len(data), nil
}

// read waits for data that has arrived. Data on its way is lost when an end closes.
func (s *stretch) read(into []byte) (int, error) {
	for {
		delay, cut, changed := s.link.state(s.toServer)
		s.mu.Lock()
		var wait <-chan time.Time
		if len(s.chunks) > 0 && !cut {
			left := time.Until(s.chunks[0].sent.Add(delay))
			if left <= 0 {
				n := copy(into, s.chunks[0].data)
				if s.chunks[0].data = s.chunks[0].data[n:]; len(s.chunks[0].data) == 0 {
					s.chunks = s.chunks[1:]
				}
				s.mu.Unlock()
				return n, nil
			}
			wait = time.After(left)
		}
		s.mu.Unlock()
		select {
		case <-wait:
		case <-s.wake:
		case <-changed:
		case <-s.closed:
			return 0, io.EOF
		}
	}
}

// A wire is one end of a connection.
type wire struct{ in, out *stretch }

func (w *wire) Read(b []byte) (int, error)  { return w.in.read(b) }
func (w *wire) Write(b []byte) (int, error) { return w.out.write(b) }

func (w *wire) Close() error {
	for _, s := range []*stretch{w.in, w.out} {
		s.once.Do(func() { close(s.closed) })
	}
	return nil
}

type address string

func (address) Network() string  { return "memory" }
func (a address) String() string { return string(a) }

func (w *wire) LocalAddr() net.Addr              { return address("here") }
func (w *wire) RemoteAddr() net.Addr             { return address("there") }
func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// A listener accepts connections of links.
type listener struct {
	accepted chan net.Conn
	once     sync.Once
	closed   chan struct{}

	mu    sync.Mutex
	conns []net.Conn
}

func newListener() *listener {
	return &listener{accepted: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.conns = append(l.conns, c)
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return address("server") }

// kill closes the listener and all of its connections.
func (l *listener) kill() {
	l.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.Close()
	}
}

var errRefused = errors.New("connection refused")

// dial connects to the listener through a link.
func (l *listener) dial(ctx context.Context, through *link) (net.Conn, error) {
	client, server := through.connect()
	select {
	case l.accepted <- server:
		return client, nil
	case <-l.closed:
		return nil, errRefused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
