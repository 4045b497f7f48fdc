// Package redistest runs real Redis servers for tests: one, or a cluster of six, on free ports
// of the loopback interface. They stop with the test.
package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/internal/porttest"
)

// A Server is a running redis-server.
type Server struct {
	// Addr is its host:port.
	Addr string

	port int
	cmd  *exec.Cmd
	log  string
}

// Start runs a redis-server without persistence, with additional configuration directives such
// as "maxmemory 3mb". It stops with the test, which fails if redis-server is not installed.
func Start(t testing.TB, directives ...string) *Server {
	t.Helper()
	s, err := start(t, porttest.Free(t), directives)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// StartSentinel runs a sentinel that monitors a primary under a name.
func StartSentinel(t testing.TB, name string, primary *Server) *Server {
	t.Helper()
	s, err := start(t, porttest.Free(t), []string{fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 1", name, primary.port)}, "--sentinel")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func start(t testing.TB, port int, directives []string, args ...string) (*Server, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("redistest: these tests need a real Redis, 6.2 or later: install it (Debian: apt-get install redis-server): %w", err)
	}
	dir := t.TempDir()
	s := &Server{port: port, Addr: "127.0.0.1:" + strconv.Itoa(port), log: filepath.Join(dir, "log")}
	conf := []string{"bind 127.0.0.1", "port " + strconv.Itoa(port), "dir " + dir, "logfile " + s.log, "daemonize no"}
	if len(args) == 0 {
		conf = append(conf, `save ""`, "appendonly no", "maxmemory-policy noeviction")
	}
	file := filepath.Join(dir, "redis.conf")
	if err := os.WriteFile(file, []byte(strings.Join(append(conf, directives...), "\n")+"\n"), 0o600); err != nil {
		return nil, err
	}
	s.cmd = exec.Command(path, append([]string{file}, args...)...)
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	t.Cleanup(s.Stop)
	return s, s.await()
}

// await polls until the server responds.
func (s *Server) await() error {
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if c, err := Dial(s.Addr); err == nil {
			_, err = c.Do("PING")
			c.Close()
			if e, answered := err.(Error); err == nil || answered && !strings.HasPrefix(string(e), "LOADING") {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			log, _ := os.ReadFile(s.log)
			return fmt.Errorf("redistest: redis-server at %s does not respond; its log:\n%s", s.Addr, log)
		}
	}
}

// StartDurable runs a redis-server that keeps acknowledged writes when it is stopped.
func StartDurable(t testing.TB) *Server {
	t.Helper()
	return Start(t, "appendonly yes", "appendfsync always")
}

// Restart starts a stopped server again, without its data unless it is durable.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	cmd := exec.Command(s.cmd.Path, s.cmd.Args[1:]...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.cmd = cmd
	t.Cleanup(s.Stop)
	if err := s.await(); err != nil {
		t.Fatal(err)
	}
}

// Stop kills the server, as a crash would. Stopping again does nothing.
func (s *Server) Stop() {
	if s.cmd.ProcessState == nil {
		s.cmd.Process.Kill()
		s.cmd.Wait()
	}
}

// PID returns the process ID of the server.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Do sends one command on a new connection and fails the test on an error.
func (s *Server) Do(t testing.TB, args ...any) any {
	t.Helper()
	c, err := Dial(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	v, err := c.Do(args...)
	if err != nil {
		t.Fatalf("%v = %v", args, err)
	}
	return v
}
