package flashsale_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/nginxtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/flashsale/front"
	"github.com/floodweir/weir/internal/porttest"
)

// The kinds of front.
var frontKinds = []string{"gateway", "asking", "lua"}

// A runningFront is a front in operation.
type runningFront struct {
	Kind string
	URL  string

	t       testing.TB
	weir    string // path of the program
	dir     string
	config  front.Config
	nginx   *nginxtest.Server
	process *process // weir serve
	PIDs    map[string]int
}

// startFront starts a front of a kind before the shop at an address.
func startFront(t testing.TB, weir, kind, shop string, c front.Config) *runningFront {
	t.Helper()
	f := &runningFront{Kind: kind, t: t, weir: weir, dir: t.TempDir(), config: c, PIDs: map[string]int{}}
	f.config.Shops = []string{shop}
	f.config.Listen = "127.0.0.1:1" // nginxtest sets the address
	f.config.Weir = porttest.Address(t)
	switch kind {
	case "gateway":
		f.config.Listen = porttest.Address(t)
		f.URL = "http://" + f.config.Listen
	case "lua":
		redis := redistest.Start(t)
		f.config.Store = "redis://" + redis.Addr
		f.PIDs["redis"] = redis.PID()
	}
	nginx := f.write(f.config)
	if kind != "lua" {
		f.process = startWeir(t, weir, filepath.Join(f.dir, "weir.yaml"))
		f.PIDs["weir"] = f.process.cmd.Process.Pid
		at := f.config.Weir
		if kind == "gateway" {
			at = f.config.Listen
		}
		awaitPort(t, at)
	}
	if kind != "gateway" {
		f.nginx = nginxtest.Start(t, nginx)
		f.PIDs["nginx"] = f.nginx.PID()
		f.URL = "http://" + f.nginx.Addr
	}
	return f
}

// write writes the file of weir, and returns the configuration of nginx.
func (f *runningFront) write(c front.Config) nginxtest.Config {
	f.t.Helper()
	nginx, text, err := "", "", error(nil)
	switch f.Kind {
	case "gateway":
		text, err = c.Gateway()
	case "asking":
		nginx, text, err = c.AuthRequest()
	case "lua":
		nginx, text, err = c.Lua()
	}
	if err != nil {
		f.t.Fatal(err)
	}
	if f.Kind == "lua" {
		// With the deadline of 1s, a machine that stalls for longer makes the front fail open
		// (on_store_error), and these tests count the requests that it admits.
		const usual = "failover: { deadline: 1s }"
		if strings.Count(text, usual) != 1 {
			f.t.Fatalf("the file lacks %q", usual)
		}
		text = strings.Replace(text, usual, "failover: { deadline: 30s }", 1)
	}
	f.writeWeir(text)
	if f.Kind == "lua" {
		f.run("edge", "lua", filepath.Join(f.dir, "lua"))
		f.run("edge", "nginx", filepath.Join(f.dir, "weir.yaml"), "--lua", filepath.Join(f.dir, "lua"), "-o", filepath.Join(f.dir, "weir.conf"))
		nginx = strings.Replace(nginx, "include weir.conf;", "include "+filepath.Join(f.dir, "weir.conf")+";", 1)
	}
	// The workers of worker_processes auto.
	return nginxtest.Config{Workers: runtime.NumCPU(), File: strings.Replace(nginx, "listen 127.0.0.1:1;", "listen ADDR;", 1)}
}

// writeWeir replaces the file of weir atomically, as editors do.
func (f *runningFront) writeWeir(text string) {
	f.t.Helper()
	to := filepath.Join(f.dir, "weir.yaml")
	if err := os.WriteFile(to+".new", []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(to+".new", to); err != nil {
		f.t.Fatal(err)
	}
}

func (f *runningFront) run(args ...string) string {
	f.t.Helper()
	var said bytes.Buffer
	cmd := exec.Command(f.weir, args...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		f.t.Fatalf("weir %q: %v\n%s", args, err, said.String())
	}
	return string(out)
}

// change applies another configuration, as far as a command does.
func (f *runningFront) change(change func(*front.Config)) {
	f.t.Helper()
	c := f.config
	change(&c)
	nginx := f.write(c)
	if f.Kind == "lua" {
		f.nginx.Reload(f.t, nginx)
	}
}

// A process is a running program with its output.
type process struct {
	cmd *exec.Cmd
	mu  sync.Mutex
	log bytes.Buffer
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func startWeir(t testing.TB, binary, file string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(binary, "serve", file)}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.cmd.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(20*time.Second, func() { p.cmd.Process.Kill() })
		p.cmd.Wait()
		late.Stop()
		if t.Failed() {
			t.Logf("output of weir:\n%s", p.Log())
		}
	})
	return p
}

// awaitPort waits until an address has a listener.
func awaitPort(t testing.TB, addr string) {
	t.Helper()
	redistest.Await(t, addr, func() error {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			c.Close()
		}
		return err
	})
}

// A backEnd stands for the shop, counts its requests and admits all of them.
type backEnd struct {
	Addr string

	mu     sync.Mutex
	seen   map[string]int // by method and path, as received
	claims map[string]int // values of X-Forwarded-For
}

func startBackEnd(t testing.TB) *backEnd {
	b := &backEnd{seen: map[string]int{}, claims: map[string]int{}}
	srv := httptest.NewServer(b)
	t.Cleanup(srv.Close)
	b.Addr = srv.Listener.Addr().String()
	return b
}

func (b *backEnd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	at := strings.ToLower(path.Clean("/" + r.URL.Path))
	b.mu.Lock()
	b.seen[r.Method+" "+at]++
	b.claims[r.Header.Get("X-Forwarded-For")]++
	n := b.seen[r.Method+" "+at]
	b.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.HasSuffix(at, "/ticket"):
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"state":"admitted","poll_after_ms":100,"place":"p","token":"%s","view":{"phase":"open"}}`, strings.Repeat("t", 80))
	case strings.HasSuffix(at, "/orders"):
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, `{"receipt":"r%d","state":"reserved"}`, n)
	case strings.HasPrefix(at, "/api/orders/"):
		fmt.Fprint(w, `{"receipt":"r","state":"pending_pay"}`)
	default:
		fmt.Fprint(w, `{}`)
	}
}

// Seen returns the number of requests with a method and path.
func (b *backEnd) Seen(what string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen[what]
}

// visit makes one request and returns the response and its body.
func visit(t testing.TB, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Flashsale-Request", "1")
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(text)
}
