package respd

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
)

// A Server serves connections. Create one with New.
type Server struct {
	config   Config
	tls      *tls.Config // nil: none
	commands map[string]*command
	names    []string                 // of commands, sorted
	password atomic.Pointer[[32]byte] // hashed
	limits   *limitCache
	started  time.Time

	ctx      context.Context // of all decisions
	cancel   context.CancelFunc
	draining atomic.Bool
	active   sync.WaitGroup // connections

	mu         sync.Mutex // guards listeners, conns and lastLogged
	listeners  map[net.Listener]bool
	conns      map[*conn]bool
	lastLogged map[string]time.Time // by message

	extra                    atomic.Int64 // see maxExtra
	ids                      atomic.Int64
	clients                  atomic.Int64 // connections
	accepted, refused        atomic.Int64
	processed                atomic.Int64
	allowed, limited, failed atomic.Int64 // of CL.THROTTLE
}

// New returns a Server. An error wraps weir.ErrInvalid and names the field.
func New(c Config) (*Server, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	s := &Server{
		config: c, limits: newLimitCache(), started: time.Now(),
		listeners: map[net.Listener]bool{}, conns: map[*conn]bool{}, tls: c.TLS, lastLogged: map[string]time.Time{},
	}
	s.setPassword(c.Password)
	s.commands, s.names = commands()
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// now returns the time, from one clock of the kernel: time.Now reads two. It ignores changes of the
// system clock since the start.
func (s *Server) now() time.Time { return s.started.Add(time.Since(s.started)) }

// SetPassword replaces the password. Clients that are authenticated stay so. An error wraps
// weir.ErrInvalid: the password is empty, or the server was made without one.
func (s *Server) SetPassword(password string) error {
	if password == "" || s.config.Password == "" {
		return fmt.Errorf("respd: password: %w: want one, and a server that was made with one", weir.ErrInvalid)
	}
	s.setPassword(password)
	return nil
}

func (s *Server) setPassword(password string) {
	hash := sha256.Sum256([]byte(password))
	s.password.Store(&hash)
}

// Serve accepts connections from l until Shutdown or Close, and then returns nil. It
// closes l.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	s.mu.Lock()
	s.listeners[l] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
	}()
	for pause := time.Duration(0); ; {
		if s.draining.Load() {
			return nil
		}
		nc, err := l.Accept()
		switch {
		case err == nil:
			pause = 0
			s.accept(nc)
		case s.draining.Load():
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("respd: accept: %w", err)
		default: // such as too many open files, which is temporary
			s.logOncePerSecond("connection not accepted", err)
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			select {
			case <-time.After(pause):
			case <-s.ctx.Done():
			}
		}
	}
}

// accept serves a connection, or refuses it at MaxConns.
func (s *Server) accept(nc net.Conn) {
	if s.clients.Add(1) > int64(s.config.MaxConns) {
		s.clients.Add(-1)
		s.refused.Add(1)
		s.config.Refused()
		if s.tls == nil { // with TLS, a handshake only to send an error would cost too much
			nc.SetWriteDeadline(time.Now().Add(time.Second))
			nc.Write([]byte("-ERR max number of clients reached\r\n"))
		}
		nc.Close()
		return
	}
	s.accepted.Add(1)
	c := newConn(s, nc)
	s.mu.Lock()
	if s.draining.Load() {
		s.mu.Unlock()
		s.clients.Add(-1)
		nc.Close()
		return
	}
	s.conns[c] = true
	s.active.Add(1)
	s.mu.Unlock()
	go func() {
		defer func() {
			nc.Close()
			c.in.release()
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
			s.clients.Add(-1)
			s.active.Done()
		}()
		c.serve()
	}()
}

// Shutdown stops accepting connections and answers what clients have sent. It closes each
// connection when it is silent, after 2 s at the latest. When ctx ends, it closes the
// other connections and returns the error of ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.draining.Store(true)
	for l := range s.listeners {
		l.Close()
	}
	for c := range s.conns {
		c.nc.SetReadDeadline(time.Now()) // interrupts a read that waits for a command
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.active.Wait()
		close(done)
	}()
	select {
	case <-done:
		s.cancel()
		return nil
	case <-ctx.Done():
	}
	s.cancel()
	s.mu.Lock()
	for c := range s.conns {
		c.nc.Close()
	}
	s.mu.Unlock()
	<-done
	return ctx.Err()
}

// Close closes all connections and waits until their goroutines have ended. Further calls
// do nothing.
func (s *Server) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.Shutdown(ctx)
	return nil
}

// logOncePerSecond logs an error at most once a second per message.
func (s *Server) logOncePerSecond(what string, err error) {
	now := time.Now()
	s.mu.Lock()
	due := now.Sub(s.lastLogged[what]) >= time.Second
	if due {
		s.lastLogged[what] = now
	}
	s.mu.Unlock()
	if due {
		s.config.Log.Error(what, slog.Any("error", err))
	}
}
