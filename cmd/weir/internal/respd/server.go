package respd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A Server serves connections. Make one with New.
type Server struct {
	config   Config
	tls      *tls.Config // nil: none
	commands map[string]*command
	names    []string // of commands, sorted
	password [32]byte // its hash
	rates    *rates
	formers  *formers
	started  time.Time

	ctx      context.Context // of every decision
	cancel   context.CancelFunc
	draining atomic.Bool
	active   sync.WaitGroup // connections

	mu        sync.Mutex // guards listeners, conns and told
	listeners map[net.Listener]bool
	conns     map[*conn]bool
	told      map[string]time.Time // when something was last logged

	extra                    atomic.Int64 // see maxExtra
	ids                      atomic.Int64
	clients                  atomic.Int64 // connections
	accepted, refused        atomic.Int64
	processed                atomic.Int64
	allowed, limited, failed atomic.Int64 // of CL.THROTTLE
}

// New makes a server. An error wraps weir.ErrInvalid and names the field.
func New(c Config) (*Server, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	s := &Server{
		config: c, password: digest([]byte(c.Password)), rates: newRates(), formers: newFormers(), started: time.Now(),
		listeners: map[net.Listener]bool{}, conns: map[*conn]bool{}, told: map[string]time.Time{},
	}
	s.commands, s.names = commands()
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if c.Certificate != nil {
		s.tls = &tls.Config{GetCertificate: c.Certificate, MinVersion: tls.VersionTLS12}
	}
	return s, nil
}

// Serve accepts connections of l until Shutdown or Close, and then returns nil. It
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
			s.admit(nc)
		case s.draining.Load():
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("respd: accept: %w", err)
		default: // such as too many open files, which passes
			s.logEvery("cannot accept a connection", err)
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			select {
			case <-time.After(pause):
			case <-s.ctx.Done():
			}
		}
	}
}

// admit serves a connection, or refuses it.
func (s *Server) admit(nc net.Conn) {
	if s.clients.Add(1) > int64(s.config.MaxConns) {
		s.clients.Add(-1)
		s.refused.Add(1)
		if s.tls == nil { // a handshake would cost more than it says
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

// Shutdown takes no more connections, answers what clients have sent, be it still on its
// way, and ends each connection when it is quiet, or after 2 s at the latest. When ctx is
// done it ends the rest and returns why ctx ended.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.draining.Store(true)
	for l := range s.listeners {
		l.Close()
	}
	for c := range s.conns {
		c.nc.SetReadDeadline(time.Now()) // wakes who waits for a command
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

// Close ends all connections at once, and waits until they have ended. Closing twice
// changes nothing.
func (s *Server) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.Shutdown(ctx)
	return nil
}

// logEvery logs a fault that may come often at most once a second.
func (s *Server) logEvery(what string, err error) {
	now := time.Now()
	s.mu.Lock()
	speak := now.Sub(s.told[what]) >= time.Second
	if speak {
		s.told[what] = now
	}
	s.mu.Unlock()
	if speak {
		s.config.Log.Error(what, slog.Any("error", err))
	}
}
