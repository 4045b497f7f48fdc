// Package nginxtest runs real nginx servers for tests, with the Lua of edge/nginx, on free
// ports of the loopback interface. They stop with the test.
package nginxtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir/internal/porttest"
)

// A Config describes a server. HTTP is the content of its http block. In it, DIR is the
// server's directory, and ADDR and ADDR2 … ADDR9 are free addresses.
type Config struct {
	HTTP    string
	Workers int    // 1 if zero
	Main    string // directives outside of the http block

	// File is a complete configuration in place of HTTP and Main, with error.log and the pid in
	// its own directory. Workers is then the number that it starts.
	File string
}

// A Server is a running nginx.
type Server struct {
	Addr string // ADDR
	Dir  string // with error.log

	addrs   []string
	conf    string
	global  string // directives in addition to a complete file
	cmd     *exec.Cmd
	workers int // of the current configuration
	done    chan struct{}
}

const modules = "/usr/lib/nginx/modules/"

// Main is the directive that loads the Lua module.
const Main = `
load_module ` + modules + `ndk_http_module.so;
load_module ` + modules + `ngx_http_lua_module.so;
`

const frame = `
daemon off;
worker_processes WORKERS;
pid DIR/pid;
error_log DIR/error.log info;
USERMAIN
worker_rlimit_nofile 16384;
events { worker_connections 16384; }
http {
  access_log off;
  client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/fastcgi;
  uwsgi_temp_path DIR/uwsgi; scgi_temp_path DIR/scgi;
  keepalive_requests 1000000;
  HTTP
}
`

// Start runs an nginx and waits until it accepts connections at ADDR. If the configuration has
// no Main, it uses the Main of this package.
func Start(t testing.TB, c Config) *Server {
	t.Helper()
	s := &Server{Dir: t.TempDir(), done: make(chan struct{})}
	for len(s.addrs) < 9 {
		s.addrs = append(s.addrs, porttest.Address(t))
	}
	s.Addr = s.addrs[0]
	s.conf = filepath.Join(s.Dir, "nginx.conf")
	s.write(t, c)
	if out, err := s.command("-t").CombinedOutput(); err != nil {
		t.Fatalf("nginx -t (Debian: apt-get install nginx-light libnginx-mod-http-lua lua-resty-core lua-nginx-redis lua-cjson): %v\n%s", err, out)
	}
	s.cmd = s.command()
	s.cmd.Stderr = io.Discard
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.done)
		s.cmd.Wait()
	}()
	t.Cleanup(s.Stop)
	s.await(t)
	return s
}

func (s *Server) command(args ...string) *exec.Cmd {
	args = append([]string{"-p", s.Dir, "-e", filepath.Join(s.Dir, "error.log"), "-c", s.conf}, args...)
	if s.global != "" {
		args = append(args, "-g", s.global)
	}
	return exec.Command("nginx", args...)
}

func (s *Server) write(t testing.TB, c Config) {
	t.Helper()
	if c.Main == "" {
		c.Main = Main
	}
	user := ""
	if os.Getuid() == 0 { // workers run as another user by default, who cannot read the files
		user = "user root;\n"
	}
	s.workers = max(1, c.Workers)
	frame := frame
	if c.File != "" {
		frame, s.global = c.File, user+"daemon off;"
	}
	pairs := []string{"USER", user, "WORKERS", strconv.Itoa(s.workers), "MAIN", c.Main, "HTTP", c.HTTP}
	text := strings.NewReplacer(pairs...).Replace(frame)
	pairs = []string{"DIR", s.Dir}
	for i := len(s.addrs) - 1; i > 0; i-- {
		pairs = append(pairs, fmt.Sprintf("ADDR%d", i+1), s.addrs[i])
	}
	text = strings.NewReplacer(append(pairs, "ADDR", s.Addr)...).Replace(text)
	if err := os.WriteFile(s.conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Address returns ADDR2 … ADDR9.
func (s *Server) Address(n int) string { return s.addrs[n-1] }

// Reload replaces the configuration, with the same addresses, and the workers. It returns when
// the old workers accept no more connections.
func (s *Server) Reload(t testing.TB, c Config) {
	t.Helper()
	before := strings.Count(s.Log(), "reconfiguring")
	workers := s.workers
	s.write(t, c)
	if out, err := s.command("-t").CombinedOutput(); err != nil {
		t.Fatalf("nginx -t: %v\n%s", err, out)
	}
	s.cmd.Process.Signal(syscall.SIGHUP)
	s.until(t, func() bool {
		log := s.Log()
		at := strings.LastIndex(log, "reconfiguring")
		return strings.Count(log, "reconfiguring") > before && strings.Count(log[at:], "gracefully shutting down") >= workers
	})
}

// Log returns the error log.
func (s *Server) Log() string {
	text, _ := os.ReadFile(filepath.Join(s.Dir, "error.log"))
	return string(text)
}

// PID returns the process ID of the master.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Stop stops the server and its workers. Stopping again does nothing.
func (s *Server) Stop() {
	select {
	case <-s.done:
		return
	default:
	}
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.done:
	case <-time.After(10 * time.Second):
		s.cmd.Process.Kill()
		<-s.done
	}
}

func (s *Server) await(t testing.TB) {
	t.Helper()
	text, err := os.ReadFile(s.conf)
	if err != nil {
		t.Fatal(err)
	}
	s.until(t, func() bool {
		for _, addr := range s.addrs { // nginx opens them one after the other
			if addr != s.Addr && !bytes.Contains(text, []byte("listen "+addr)) {
				continue
			}
			c, err := net.DialTimeout("tcp", addr, time.Second)
			if err != nil {
				return false
			}
			c.Close()
		}
		return true
	})
}

// until waits for up to 30 seconds until ok holds.
func (s *Server) until(t testing.TB, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-s.done:
			t.Fatalf("nginx ended; its log:\n%s", s.Log())
		case <-deadline.C:
			t.Fatalf("nginx is not ready after 30s; its log:\n%s", s.Log())
		}
	}
}

// Edge returns the directory of the Lua files, found from the test's directory up.
func Edge(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		edge := filepath.Join(dir, "edge", "nginx")
		if _, err := os.Stat(edge); err == nil {
			return edge
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no directory above has edge/nginx")
		}
		dir = up
	}
}

// Path returns the directive with which Lua finds the files of edge/nginx.
func Path(t testing.TB) string {
	t.Helper()
	return `lua_package_path "` + Edge(t) + `/?.lua;;";`
}

// Lua runs Lua code in the content phase of a server shared by a test and returns its output.
// The code reads the request body, stdin, with ngx.req.get_body_data. The test fails if the
// code does.
func Lua(t testing.TB, code, stdin string) string {
	t.Helper()
	s := Start(t, Config{HTTP: Path(t) + `
  server { listen ADDR; location / {
    client_max_body_size 64m; client_body_buffer_size 64m;
    content_by_lua_file DIR/code.lua;
  } }`})
	return s.Run(t, code, stdin)
}

// Run is Lua on a server that has a location / with content_by_lua_file DIR/code.lua.
func (s *Server) Run(t testing.TB, code, stdin string) string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.Dir, "code.lua"), []byte("ngx.req.read_body()\n"+code), 0o600); err != nil {
		t.Fatal(err)
	}
	res, err := http.Post("http://"+s.Addr+"/", "text/plain", strings.NewReader(stdin))
	if err != nil {
		t.Fatal(errors.Join(err, errors.New(s.Log())))
	}
	defer res.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(res.Body); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v; the log of nginx:\n%s", res.StatusCode, err, s.Log())
	}
	return b.String()
}
