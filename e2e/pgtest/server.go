//go:build unix

// Package pgtest runs real PostgreSQL servers for tests. Each has its own data in a temporary
// directory and a free port of the loopback interface, and stops with the test. They write
// through to the disk (fsync is on), as in production.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/internal/porttest"
)

// A Server is a PostgreSQL server. Its methods are for one goroutine at a time.
type Server struct {
	// Addr is its host:port, which does not change when it is restarted.
	Addr string

	dir      string
	bin      string
	settings []string
	cmd      *exec.Cmd
	done     chan struct{} // closed when it has ended
	dbs      int
	version  string // such as 15.18
	volatile bool   // see StartVolatile
}

// Start runs a server with additional settings, such as "max_connections=20". It stops with
// the test, which fails if PostgreSQL is not installed.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	return StartAt(t, porttest.Address(t), settings...)
}

// StartAt is Start with an address of the loopback interface.
func StartAt(t testing.TB, addr string, settings ...string) *Server {
	t.Helper()
	// Not t.TempDir: the server's user needs access.
	dir, err := os.MkdirTemp("", "pgtest")
	if err != nil {
		t.Fatal(err)
	}
	return startIn(t, dir, &Server{Addr: addr, settings: settings})
}

// StartVolatile runs a server that no test kills or measures: it writes nothing through to the disk,
// and its files are in memory if there is room. A database costs a quarter of the CPU time.
func StartVolatile(t testing.TB, settings ...string) *Server {
	t.Helper()
	dir, err := memoryDir(t), error(nil)
	if dir == "" {
		dir, err = os.MkdirTemp("", "pgtest")
	}
	if err != nil {
		t.Fatal(err)
	}
	// Each database would have an autovacuum process a minute, and no test is that long.
	settings = append([]string{"fsync=off", "full_page_writes=off", "autovacuum=off"}, settings...)
	return startIn(t, dir, &Server{Addr: porttest.Address(t), settings: settings, volatile: true})
}

func startIn(t testing.TB, dir string, s *Server) *Server {
	t.Helper()
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	bin, err := binaries()
	if err == nil {
		err = reachable(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.dir, s.bin = dir, bin
	if err := s.create(); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(s.Stop)
	s.Start(t)
	return s
}

// create makes the data directory, as a copy of one that initdb made once for all test packages. A
// copy takes a tenth of the CPU time.
func (s *Server) create() error {
	args := []string{"--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"}
	initdb, err := os.Stat(filepath.Join(s.bin, "initdb"))
	if err != nil {
		return err
	}
	uid, _, _ := user()
	version := fnv.New64a()
	fmt.Fprint(version, s.bin, initdb.ModTime(), os.Geteuid(), uid, args)
	made, err := programtest.Once(fmt.Sprintf("postgresql-%x", version.Sum64()), func(path string) error {
		// Its user may have no access to path.
		if err := run(s.command("initdb", append(args, "--pgdata="+s.data())...)); err != nil {
			return err
		}
		return run(exec.Command("mv", s.data(), path))
	})
	if err != nil {
		return err
	}
	return run(exec.Command("cp", "-Rp", made, s.data()))
}

// run runs a command to its end.
func run(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// command returns a command for a PostgreSQL program, as another user if the test runs as
// root.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC", "PATH=" + os.Getenv("PATH"), "HOME=" + s.dir}
	cmd.SysProcAttr = attributes()
	return cmd
}

// Start starts the server, again with its data if it ran before, and waits until it is ready.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if s.cmd != nil {
		t.Fatal("pgtest: Start: the server is running")
	}
	_, port, _ := net.SplitHostPort(s.Addr)
	// The processes of a killed server end soon, but until then they lock the data.
	deadline := time.Now().Add(2 * time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		args := []string{"-D", s.data(), "-h", "127.0.0.1", "-p", port, "-k", s.dir, "-c", "max_connections=100", "-c", "shared_buffers=32MB"}
		for _, x := range s.settings {
			args = append(args, "-c", x)
		}
		cmd := s.command("postgres", args...)
		cmd.Stdout, cmd.Stderr = log, log
		err = cmd.Start()
		_ = log.Close() // the server has its own descriptor
		if err != nil {
			t.Fatalf("pgtest: %v", err)
		}
		s.cmd, s.done = cmd, make(chan struct{})
		go func(done chan struct{}) {
			_ = cmd.Wait() // the reason is in its log
			close(done)
		}(s.done)
		for alive := true; alive; {
			if err = s.ping(); err == nil {
				return
			}
			select {
			case <-s.done:
				s.cmd, alive = nil, false
			case <-tick.C:
			}
			if time.Now().After(deadline) {
				t.Fatalf("pgtest: the server is not ready: %v\n%s", err, s.Log())
			}
		}
	}
}

func (s *Server) ping() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return err
	}
	s.version = c.PgConn().ParameterStatus("server_version")
	return errors.Join(c.Ping(ctx), c.Close(ctx))
}

func (s *Server) log() string { return filepath.Join(s.dir, "log") }

// Log returns the server's log.
func (s *Server) Log() string {
	b, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// DSN returns the connection string of a database for the superuser. "postgres" always exists.
func (s *Server) DSN(db string) string {
	return "postgres://postgres@" + s.Addr + "/" + db + "?sslmode=disable"
}

// NewDB makes an empty database and returns its name for DSN.
func (s *Server) NewDB(t testing.TB) string { t.Helper(); return s.CopyDB(t, "template1") }

// CopyDB makes a copy of a database that has no connections, and returns its name for DSN.
func (s *Server) CopyDB(t testing.TB, of string) string {
	t.Helper()
	s.dbs++
	db := "test" + strconv.Itoa(s.dbs)
	statement := "CREATE DATABASE " + db + " TEMPLATE " + of
	major, _, _ := strings.Cut(s.version, ".")
	if n, _ := strconv.Atoi(major); s.volatile && n >= 15 { // before 15 it is the only strategy
		statement += " STRATEGY file_copy" // half the CPU time, but with fsync it syncs 300 files
	}
	s.Exec(t, "postgres", statement)
	return db
}

// Exec runs statements in a database, apart from the code under test.
func (s *Server) Exec(t testing.TB, db string, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, s.DSN(db))
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	defer func() { _ = c.Close(ctx) }()
	for _, q := range statements {
		if _, err := c.Exec(ctx, q); err != nil {
			t.Fatalf("pgtest: %s: %v", q, err)
		}
	}
}

// Stop stops the server at once without writing its memory to disk (immediate shutdown); Start
// recovers from its log. Stopping again does nothing.
func (s *Server) Stop() { s.end(func() { s.signal(syscall.SIGQUIT, false) }) }

// Kill kills the server and all its processes with SIGKILL.
func (s *Server) Kill() { s.end(func() { s.signal(syscall.SIGKILL, true) }) }

func (s *Server) end(tell func()) {
	if s.cmd == nil {
		return
	}
	s.Cont() // a stopped process handles no signals
	tell()
	patience := time.NewTimer(10 * time.Second)
	defer patience.Stop()
	select {
	case <-s.done:
	case <-patience.C:
		s.signal(syscall.SIGKILL, true)
		<-s.done
	}
	s.cmd = nil
}

// PID returns the process ID of the server's first process; the others are its children.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Pause stops all processes of the server (SIGSTOP) until Cont.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP, true) }

// Cont resumes a paused server.
func (s *Server) Cont() { s.signal(syscall.SIGCONT, true) }

// signal sends a signal to the server's first process and, if all is set, to its children.
func (s *Server) signal(sig syscall.Signal, all bool) {
	if s.cmd == nil {
		return
	}
	children := s.children()
	_ = s.cmd.Process.Signal(sig) // it may have ended
	if !all {
		return
	}
	for _, pid := range slices.Concat(children, s.children()) { // and those started meanwhile
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Signal(sig)
		}
	}
}

// children returns the processes that the server has started, from /proc.
func (s *Server) children() []int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var pids []int
	for _, f := range stats {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state ppid …
		_, rest, _ := strings.Cut(string(b), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(s.cmd.Process.Pid) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// binaries returns the directory of initdb and postgres.
func binaries() (string, error) {
	dirs := filepath.SplitList(os.Getenv("PATH"))
	debian, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.Reverse(debian) // the newest first
	for _, dir := range slices.Concat(debian, dirs) {
		if isFile(filepath.Join(dir, "initdb")) && isFile(filepath.Join(dir, "postgres")) {
			return dir, nil
		}
	}
	return "", errors.New("pgtest: these tests need a real PostgreSQL, 12 or later: install it (Debian: apt-get install postgresql)")
}

func isFile(name string) bool {
	i, err := os.Stat(name)
	return err == nil && !i.IsDir()
}

// reachable gives a directory to the server's user.
func reachable(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	uid, gid, other := user()
	if !other {
		return nil
	}
	if err := os.Chown(dir, uid, gid); err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	return nil
}
