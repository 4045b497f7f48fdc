package storeconn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/setup"
)

// A server is a Redis of a test.
type server struct {
	mu       sync.Mutex
	down     bool
	password string // "": any
	problem  error  // of a check
	took     time.Duration

	dials, closed atomic.Int64
}

func (s *server) set(change func(*server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *server) dial(_ context.Context, a address) (*link, error) {
	s.dials.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down:
		return nil, fmt.Errorf("refused: %w", weir.ErrUnavailable)
	case s.password != "" && a.redis.Password != s.password:
		return nil, setup.New("WRONGPASS", "correct it")
	}
	l := &session{server: s}
	return &link{store: l, check: l.check, close: l.close}, nil
}

// A session is a connection to a server. Its calls fail once it is closed.
type session struct {
	server *server
	closed atomic.Bool
	calls  sync.WaitGroup
}

func (l *session) check(context.Context) (serverInfo, error) {
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	return serverInfo{name: "redis"}, l.server.problem
}

func (l *session) Do(_ context.Context, r weir.Request) (weir.Decision, error) {
	if l.closed.Load() {
		return weir.Decision{}, fmt.Errorf("test: %w", weir.ErrClosed)
	}
	l.calls.Add(1)
	defer l.calls.Done()
	pass(l.server.took)
	return weir.Decision{OK: true}, nil
}

func (l *session) DoAll(ctx context.Context, rs []weir.Request, _ []weir.Decision) (bool, error) {
	_, err := l.Do(ctx, rs[0])
	return err == nil, err
}

func (l *session) close() {
	l.closed.Store(true)
	l.calls.Wait()
	l.server.closed.Add(1)
}

// A journal is a log.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }

// opened runs f in virtual time with a configuration whose password is in the file.
func opened(t *testing.T, f func(t *testing.T, s *server, c Config, file string, log *journal)) {
	file := filepath.Join(t.TempDir(), "password")
	write(t, file, "one")
	synctest.Test(t, func(t *testing.T) {
		var log journal
		f(t, &server{}, Config{
			URL: "redis://weir@h?password_file=" + file, Name: "redis://h", Log: slog.New(slog.NewTextHandler(&log, nil)),
		}, file, &log)
	})
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func wantLog(t *testing.T, log *journal, text string, times int) {
	t.Helper()
	if n := strings.Count(log.String(), text); n != times {
		t.Errorf("the log has %q %d times, want %d:\n%s", text, n, times, log)
	}
}

var request = weir.Request{Key: "k", Limit: weir.MustLimit("1/s"), N: 1}

// TestStartWaits checks that Open waits for a Redis that does not respond, with progress in
// the log, and that it returns an error after StartWait.
func TestStartWaits(t *testing.T) {
	opened(t, func(t *testing.T, s *server, c Config, _ string, log *journal) {
		s.down = true
		began := time.Now()
		_, err := open(t.Context(), c, s.dial)
		if err == nil || !errors.Is(err, weir.ErrUnavailable) || !strings.Contains(err.Error(), "--start-degraded") || !strings.Contains(err.Error(), "redis://h") {
			t.Errorf("Open without Redis = %v", err)
		}
		if d := time.Since(began); d > StartWait || d < StartWait/2 {
			t.Errorf("Open took %v, want about %v", d, StartWait)
		}
		if n := strings.Count(log.String(), "store unavailable: waiting"); n < 5 || n > 12 {
			t.Errorf("%d lines of progress, want 5 to 12", n)
		}
		go func() {
			pass(3 * time.Second)
			s.set(func(s *server) { s.down = false })
		}()
		k, err := open(t.Context(), c, s.dial)
		if err != nil {
			t.Fatalf("Open of a Redis that starts within 3 s = %v", err)
		}
		k.Close()
		ctx, cancel := context.WithCancel(t.Context())
		s.set(func(s *server) { s.down = true })
		time.AfterFunc(time.Second, cancel)
		if _, err := open(ctx, c, s.dial); !errors.Is(err, context.Canceled) {
			t.Errorf("Open that was canceled = %v", err)
		}
	})
}

// TestStartRefusesSetup checks that a configuration problem ends the start at once.
func TestStartRefusesSetup(t *testing.T) {
	opened(t, func(t *testing.T, s *server, c Config, _ string, _ *journal) {
		for _, problem := range []func(*server){
			func(s *server) { s.password = "two" },
			func(s *server) {
				s.password, s.problem = "", setup.New("maxmemory-policy is allkeys-lru", "noeviction")
			},
		} {
			s.set(problem)
			began := time.Now()
			_, err := open(t.Context(), c, s.dial)
			var wrong *setup.Error
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), wrong.Fix) || time.Since(began) != 0 {
				t.Errorf("Open = %v after %v, want a setup.Error at once", err, time.Since(began))
			}
		}
		if s.closed.Load() != 1 {
			t.Errorf("%d connections closed, want the one that was open", s.closed.Load())
		}
	})
}

// TestStartDegraded checks that StartDegraded starts at once, connects later, and reports
// the problem until it is solved.
func TestStartDegraded(t *testing.T) {
	opened(t, func(t *testing.T, s *server, c Config, _ string, log *journal) {
		c.StartDegraded = true
		var observed []bool
		c.Observe = func(problem error) { observed = append(observed, problem != nil) }
		s.password = "two"
		k, err := open(t.Context(), c, s.dial)
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		if _, err := k.Do(t.Context(), request); !errors.Is(err, weir.ErrUnavailable) || k.Problem() == nil {
			t.Errorf("Do = %v, problem %v, want ErrUnavailable and WRONGPASS", err, k.Problem())
		}
		s.set(func(s *server) { s.password, s.problem = "one", setup.New("replica", "name the primary") })
		pass(2 * lastRetry)
		if _, err := k.Do(t.Context(), request); err != nil || k.Problem() == nil || !strings.Contains(k.Problem().Error(), "replica") {
			t.Errorf("Do = %v, problem %v, want a decision and the problem", err, k.Problem())
		}
		s.set(func(s *server) { s.problem = nil })
		pass(2 * CheckInterval)
		if k.Problem() != nil {
			t.Errorf("problem %v after it was solved", k.Problem())
		}
		wantLog(t, log, "configuration problem solved", 1)
		k.Close()
		if fmt.Sprint(observed) != "[true true false]" {
			t.Errorf("observed %v, want two problems and none", observed)
		}
	})
}

// TestProblemAtRunTime checks that a change of Redis is reported within CheckInterval, once,
// and that a Redis that does not respond does not hide it.
func TestProblemAtRunTime(t *testing.T) {
	opened(t, func(t *testing.T, s *server, c Config, _ string, log *journal) {
		k, err := open(t.Context(), c, s.dial)
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		s.set(func(s *server) { s.problem = setup.New("maxmemory-policy is volatile-ttl", "noeviction") })
		pass(CheckInterval + 1)
		if k.Problem() == nil {
			t.Error("no problem after CheckInterval")
		}
		s.set(func(s *server) { s.problem = weir.ErrUnavailable })
		pass(10 * CheckInterval)
		if k.Problem() == nil {
			t.Error("the problem disappeared while Redis did not respond")
		}
		wantLog(t, log, "configuration problem", 1)
	})
}

// TestRotation changes the password while many callers wait for a slow Redis. No decision
// fails. A wrong password keeps the connection, and is used once Redis accepts it.
func TestRotation(t *testing.T) {
	opened(t, func(t *testing.T, s *server, c Config, file string, log *journal) {
		s.took = 300 * time.Millisecond
		k, err := open(t.Context(), c, s.dial)
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		ctx, stop := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		var decided atomic.Int64
		for i := range 200 {
			clients.Go(func() {
				pass(time.Duration(i) * time.Millisecond)
				for ctx.Err() == nil {
					_, err := k.Do(context.Background(), request)
					if err == nil {
						_, err = k.DoAll(context.Background(), []weir.Request{request}, make([]weir.Decision, 1))
					}
					if err != nil {
						t.Errorf("a decision during the rotation: %v", err)
						return
					}
					decided.Add(1)
				}
			})
		}
		pass(time.Second)
		first := k.current.Load()

		k.Reload() // nothing has changed
		pass(time.Second)
		if k.current.Load() != first || s.dials.Load() != 1 {
			t.Error("Reload without a change connected again")
		}
		s.set(func(s *server) { s.password = "two" }) // connections stay authenticated
		write(t, file, "wrong")
		k.Reload()
		pass(20 * time.Second)
		if k.current.Load() != first {
			t.Error("a wrong password replaced the connection")
		}
		wantLog(t, log, "new password or certificate not usable", 1)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		k.Reload()
		wantLog(t, log, "not reloaded", 1)

		write(t, file, "two")
		k.Reload()
		pass(time.Second)
		second := k.current.Load()
		if second == first {
			t.Error("the right password did not replace the connection")
		}
		write(t, file, "three") // before Redis knows it
		k.Reload()
		pass(10 * time.Second)
		if k.current.Load() != second {
			t.Error("a password that Redis does not know replaced the connection")
		}
		s.set(func(s *server) { s.password = "three" })
		pass(2 * lastRetry)
		if k.current.Load() == second {
			t.Error("no connection with the password after Redis knew it")
		}
		pass(2 * retireAfter)
		if n := s.closed.Load(); n != 2 {
			t.Errorf("%d connections closed, want the 2 that were replaced", n)
		}
		stop()
		clients.Wait()
		if decided.Load() < 1000 {
			t.Errorf("%d decisions, want many", decided.Load())
		}
	})
}
